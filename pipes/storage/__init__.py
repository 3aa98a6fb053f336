"""The one door to files, near or remote: listing, opening, reading, retrying. Nothing here knows formats."""
