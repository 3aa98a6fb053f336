"""Operators that make one element of several rows, and those that take such elements apart."""
