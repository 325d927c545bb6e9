"""Errors of forecasts: by point, by ranking, as allowance for the next one."""
