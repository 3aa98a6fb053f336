"""CSV: its options, its tables, and where its quotes allow a cut."""
