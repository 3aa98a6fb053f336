"""The doors to torch's `DataLoader`: a look-alike of it, and datasets that give it the elements of a pipe."""
