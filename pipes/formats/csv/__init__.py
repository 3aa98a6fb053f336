"""CSV: its options, its parser, and where its quotes let records end."""
