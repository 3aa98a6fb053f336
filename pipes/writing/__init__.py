"""Writers, one a file: they run a pipe and write what it gives."""
