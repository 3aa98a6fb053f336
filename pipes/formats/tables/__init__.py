"""What formats of tables share: how names and types are fixed for all files, and columns as rows."""
