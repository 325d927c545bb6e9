"""Operating points and grids: what a campaign measures, and how the simulator runs it."""
