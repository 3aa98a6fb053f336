"""Collation: turns a batch into tensors as torch's `default_collate` does, but fast for tables and arrays.

Nothing here imports torch at its head: torch is imported only for the values that it alone can collate.
"""
