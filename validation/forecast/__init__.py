"""Forecasts of measured points, their baselines, and their provenance."""
