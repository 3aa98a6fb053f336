"""Parquet: its options, files, footers, and filters on statistics."""
