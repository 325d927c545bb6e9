"""Runs of the simulator: scenarios with the costs of a profile, and their engines."""
