"""Machines of the literature that nobody can measure any more: profiles with ranges."""
