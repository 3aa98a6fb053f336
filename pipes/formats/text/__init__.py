"""Text: chunks of a stream, and the format of plain lines."""
