"""The kernel's memory for connections, waits and threads: costs in bytes, and their bench."""
