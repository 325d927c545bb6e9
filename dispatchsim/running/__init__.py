"""From a scenario to results: preparation, compiling, runs, estimates, figures."""
