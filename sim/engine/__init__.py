"""Two engines over one model: the reference on SimPy, and the fast one in C (c/)."""
