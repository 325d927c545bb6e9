"""Campaigns: what is measured in which order, on which target."""
