"""Sources, one per file: operators without inputs, and functions that chain `list_files`, `open_files` and a parser."""
