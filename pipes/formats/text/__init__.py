"""Text: chunks of lines, and the formats that are read line by line."""
