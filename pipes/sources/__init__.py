"""The sources: one a file, each a frozen value with its running code and the function that begins a pipe with it."""
