"""CPUs: running threads, interrupts, waiting packets."""
