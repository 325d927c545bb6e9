"""Statistics of simulation output: what a run, or several, say about the system behind them."""
