"""The code that is measured, one file a contestant."""
