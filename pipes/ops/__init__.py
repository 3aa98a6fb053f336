"""Operators on rows, one or one family of siblings a file. A file that starts with an underscore serves several."""
