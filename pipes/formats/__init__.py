"""Formats: from bytes to rows.

Formats import errors and the values of `core` (rows, cursors, checks, code). They know no pipes, graphs, plans or
storage: a file is a stream of bytes. Only error messages name chain functions, as repairs.
"""
