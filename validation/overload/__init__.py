"""Overload, floods and signal queues: forecasts beside measured runs."""
