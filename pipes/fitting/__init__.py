"""`fit` and `profile`: runs of a pipe that summarize its columns."""
