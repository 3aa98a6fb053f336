"""Databases: ranges of a query, and the drivers that run it and give its rows as Arrow."""
