"""Errors of forecasts: by point, by ranking, and as an allowance for the next forecast."""
