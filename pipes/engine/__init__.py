"""Runs one graph in one process. It knows operators by their contract, never by name, and no plans or workers."""
