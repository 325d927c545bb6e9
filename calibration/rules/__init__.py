"""Rules of the kernel: a table of questions, and the answers of a running Linux."""
