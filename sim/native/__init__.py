"""Compiled C libraries: where they come from, and who may put one where it is loaded from."""
