"""From benches and runs to costs: medians, equations, curves, floods, requests."""
