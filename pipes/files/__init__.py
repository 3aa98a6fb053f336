"""Files: one module for each format, from its options to the rows of its operator, and what they share."""
