"""Rules of the kernel, compared with the simulator's: the same question to both."""
