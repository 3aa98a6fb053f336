"""Operators that make one pipe of several."""
