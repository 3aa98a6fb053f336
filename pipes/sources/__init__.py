"""Where pipes begin, one source a file. A source that reads files chains `list_files`, `open_files` and a parser."""
