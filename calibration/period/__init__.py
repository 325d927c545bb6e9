"""Machines of the literature that can no longer be measured: profiles with ranges."""
