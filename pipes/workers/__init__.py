"""Worker processes: how they start, what they do, and who ends them."""
