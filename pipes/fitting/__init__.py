"""`fit`: runs a pipe to find the statistics of its columns."""
