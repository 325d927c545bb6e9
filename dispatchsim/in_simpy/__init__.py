"""Servers as components of a user's SimPy environment."""
