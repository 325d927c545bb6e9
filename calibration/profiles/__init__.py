"""Profiles: named costs of a machine with intervals, borrowed costs, changed hardware."""
