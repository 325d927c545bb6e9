"""Servers as components of somebody's SimPy environment."""
