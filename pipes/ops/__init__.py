"""The operators: one, or one family of siblings, a file: its frozen value, its running code and its chain function."""
