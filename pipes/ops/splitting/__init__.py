"""Operators that make several pipes of one."""
