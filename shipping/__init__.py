"""Wheels that carry the compiled engines of all built-in programs: `make wheels`."""
