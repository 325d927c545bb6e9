"""Where the instructions of the emulated target go: the measured side of the CPU's ledger."""
