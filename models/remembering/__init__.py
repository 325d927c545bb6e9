"""What a server or kernel remembers between calls: readiness, changes of interest."""
