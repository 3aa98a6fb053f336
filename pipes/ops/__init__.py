"""The operators on rows, each with its chain function: one file for each operator, or for a family of them.

A file whose name begins with an underscore has code that several operators share. Operators on files are in `parsing`.
"""
