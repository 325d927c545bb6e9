"""Compiled C libraries: their origin, and the users that are trusted to place one."""
