"""Operating points and grids: what a campaign measures and the simulator runs."""
