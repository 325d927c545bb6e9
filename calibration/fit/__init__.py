"""Fit costs to benches and runs: medians, equations, curves, floods, requests."""
