"""What formats of tables share: names and types of columns, and columns as batches."""
