"""Statistics of simulation output: what a run, or several, say about the system behind them.

    one run ───► stability ───► warm_up ───► batch_means, quantiles ──┐
                 does it grow?  remove it                             ├──► Interval
    many runs ─► sequential ─────────────► replications, quantiles ───┘
                 how many?
    systems ───► paired, ranking, selection ──► which is the better, with what probability

Pure functions and small objects over numbers: nothing here knows what was simulated. How often each
interval holds the truth is measured by `validation/output_statistics/coverage.py`.
"""
