"""The literature's results as data, and how often the simulator says the same."""
