"""Dispatch mechanisms, one per file, and the server programs around them."""
