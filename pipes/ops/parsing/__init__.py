"""Operators from files to rows: opening, and one parser a file. What knows bytes is in `formats`."""
