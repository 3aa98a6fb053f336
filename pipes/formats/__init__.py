"""From bytes to rows. Nothing here knows pipes, plans or storage."""
