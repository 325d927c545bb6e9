"""The target without noise: every single run against the simulation of the same arrivals."""
