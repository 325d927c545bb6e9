"""The target without noise: every run against the simulation of the same arrivals."""
