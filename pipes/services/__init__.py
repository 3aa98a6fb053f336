"""The reading services: where a plan runs. One a file."""
