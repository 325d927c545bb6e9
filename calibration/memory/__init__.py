"""What the kernel keeps for connections, waits and threads: prices in bytes, and their bench."""
