"""Overload, floods and signal queues: forecasts and measured runs."""
