"""From a pipe to what each rank runs: pure functions from graph to graph."""
