"""Campaigns: what to measure, in which order, on which target."""
