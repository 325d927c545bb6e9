"""Validation: forecasts against measurements and published results."""
