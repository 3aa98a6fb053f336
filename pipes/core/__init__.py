"""The values that flow through a pipe, the graph, and the contract of operators. Nothing here runs a graph."""
