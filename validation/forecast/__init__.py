"""Forecasts of measured points, their baselines, and where both come from."""
