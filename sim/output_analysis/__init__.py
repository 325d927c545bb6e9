"""Statistics of simulation output: estimates for a system from one or several runs.

    one run ───► steady_state ──────────────► batch means, quantiles ──┐
                 does it grow? its warm-up                              ├──► Interval
    many runs ─► sequential ────────────────► means, quantiles ────────┘
                 how many?
    systems ───► comparison, sequential ────► which is the better, with what probability

Pure functions and small objects over numbers, independent of the simulated system.
`validation/output_statistics/coverage.py` measures how often each interval holds the true value.
"""
