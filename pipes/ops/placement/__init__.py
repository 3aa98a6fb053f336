"""Operators that say where rows are kept, and where a part of the pipe runs."""
