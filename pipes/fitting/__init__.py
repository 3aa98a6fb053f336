"""Runs a pipe to find out about its columns: `fit` and `profile`."""
