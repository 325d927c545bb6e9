"""Threads that block in their calls."""
