"""Operators on files: one opens them, the others parse them. The bytes of a format belong to `formats`."""
