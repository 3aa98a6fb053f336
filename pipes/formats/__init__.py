"""Formats: what bytes mean. Pure code over byte streams; nothing here knows of pipes, runs or storage."""
