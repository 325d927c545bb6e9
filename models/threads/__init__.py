"""Threads that sleep in their calls."""
