"""Carries graphs and elements between processes: packing and shared memory. Nothing here knows workers."""
