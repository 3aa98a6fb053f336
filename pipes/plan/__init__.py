"""From a pipe to what each shard runs: pure functions from graph to graph. Nothing here reads data."""
