"""How graphs and elements cross processes: packing and shared memory. Nothing here knows workers."""
