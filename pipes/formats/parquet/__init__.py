"""Parquet: its options, files and footers, and filters on their statistics."""
