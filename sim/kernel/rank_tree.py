"""How many watched descriptors lie below one: a Fenwick tree, so that a scan is priced at once.

Source: Fenwick 1994, "A new data structure for cumulative frequency tables", Software: Practice
and Experience 24(3).
"""

from __future__ import annotations


def rank_add(tree: list[int], fd: int, change: int) -> None:
    """Add *change* (1: now watched, -1: no longer) at *fd*."""
    i = fd + 1
    while i < len(tree):
        tree[i] += change
        i += i & -i


def rank_below(tree: list[int], fd: int) -> int:
    """Return how many watched descriptors are lower than *fd*."""
    n = 0
    i = fd
    while i > 0:
        n += tree[i]
        i -= i & -i
    return n


def rank_fill(tree: list[int], first_fd: int, end_fd: int) -> None:
    """Watch all descriptors from *first_fd* up to *end_fd*, exclusive, in one pass."""
    for i in range(1, len(tree)):
        # Entry i covers the descriptors i - (i & -i) .. i - 1.
        tree[i] += max(0, min(i, end_fd) - max(i - (i & -i), first_fd))
