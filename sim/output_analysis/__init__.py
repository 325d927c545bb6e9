"""Statistics of simulation output: what a run, or several, say about the system behind them.

    one run ───► steady_state ──────────────► batch means, quantiles ──┐
                 does it grow? its warm-up                              ├──► Interval
    many runs ─► sequential ────────────────► means, quantiles ────────┘
                 how many?
    systems ───► comparison, sequential ────► which is the better, with what probability

Pure functions and small objects over numbers: nothing here knows what was simulated. How often each
interval holds the truth is measured by `validation/output_statistics/coverage.py`.
"""
