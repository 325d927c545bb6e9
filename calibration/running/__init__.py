"""Runs of the simulator: a scenario at the costs of a profile, and the engines that runs need."""
