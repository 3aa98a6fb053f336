"""Arrow IPC: files and streams, and the FlatBuffers of their heads."""
