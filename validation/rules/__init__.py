"""Rules of the kernel, set beside the simulator's: the same question to both."""
