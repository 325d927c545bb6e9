"""The style of every picture."""
