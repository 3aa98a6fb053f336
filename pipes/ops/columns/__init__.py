"""Operators on the columns of tables."""
