"""How many watched descriptors lie below one: a Fenwick tree, so that a scan is priced at once.

Source: Fenwick 1994, "A new data structure for cumulative frequency tables", Software: Practice
and Experience 24(3).
"""

from __future__ import annotations

from .interest_set import InterestSet
from .jitable import jitable


@jitable
def rank_add(interests: InterestSet, fd: int, change: int) -> None:
    """Add *change* (1: now watched, -1: no longer) at *fd*."""
    i = fd + 1
    while i < len(interests.tree):
        interests.tree[i] += change
        i += i & -i


@jitable
def rank_below(interests: InterestSet, fd: int) -> int:
    """Return how many watched descriptors are lower than *fd*."""
    n = 0
    i = fd
    while i > 0:
        n += interests.tree[i]
        i -= i & -i
    return n


@jitable
def rank_fill(interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Watch all descriptors from *first_fd* up to *end_fd*, exclusive, in one pass."""
    for i in range(1, len(interests.tree)):
        # Entry i covers the descriptors i - (i & -i) .. i - 1.
        interests.tree[i] += max(0, min(i, end_fd) - max(i - (i & -i), first_fd))
