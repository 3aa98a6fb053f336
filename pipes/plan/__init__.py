"""From a pipe to the graph of each shard, by pure functions. Nothing here reads rows or starts processes."""
