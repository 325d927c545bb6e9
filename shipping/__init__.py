"""Build wheels with the compiled engines of all built-in programs: `make wheels`."""
