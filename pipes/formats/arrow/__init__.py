"""Arrow IPC: streams, files, and the flatbuffers of their heads."""
