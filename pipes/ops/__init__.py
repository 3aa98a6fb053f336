"""The operators, each with its chain function: one file for each operator, or for a family of them.

The folders are the families of the reference. A file whose name begins with an underscore has code that several of the
operators in its folder share, or here those in several folders.
"""
