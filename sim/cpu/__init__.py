"""CPUs: who runs, what interrupts take, which packets wait."""
