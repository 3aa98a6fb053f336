"""Databases: what a query is divided into, and the drivers that run it and give its rows as Arrow."""
