"""The command line: `feedpipe ops | explain | head | verify`."""
