"""The values that flow through a pipe, and the contract of operators. Nothing here runs a graph."""
