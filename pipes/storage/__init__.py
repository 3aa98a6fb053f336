"""Files, local or remote: listing, opening, reading, writing, retrying. Nothing here knows formats or pipes."""
