"""Calls that look at every descriptor: select, poll, /dev/poll."""
