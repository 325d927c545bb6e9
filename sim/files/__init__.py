"""Parallel work and whole files: nothing is simulated here."""
