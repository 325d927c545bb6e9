"""The second clock: the same models as machine code, through Numba."""
