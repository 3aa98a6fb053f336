"""Writing: a pipe is run, and its rows become files in a folder."""
