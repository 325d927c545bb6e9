"""Measured points: medians over accepted repeats, with their spread."""
