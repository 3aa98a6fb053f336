"""The generator of the documentation site: `make docs`."""
