"""What a user sees of a pipeline: reports of what its threads did, and the line of an epoch."""
