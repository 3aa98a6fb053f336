"""What a user sees of a pipeline: reports of what its threads did. Imported when it is first used."""
