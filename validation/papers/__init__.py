"""Results of the literature as data, and how often the simulator reproduces them."""
