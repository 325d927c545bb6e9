"""The few container operations that differ between lists (reference) and arrays (compiled).

The Python bodies use the interpreter's own C. In their place the C engine has those of
sim/engine/c/bodies.py and engine/calendar.h.
"""

from __future__ import annotations

import heapq


def heap_push(heap: list[int], n: int, value: int) -> None:
    """Push *value* on the min-heap in the first *n* entries of *heap*."""
    assert len(heap) == n
    heapq.heappush(heap, value)


def heap_pop(heap: list[int], n: int) -> int:
    """Remove and return the least of the first *n* entries of the min-heap *heap*."""
    assert len(heap) == n
    return heapq.heappop(heap)


def fill(column: list[int], begin: int, end: int, value: int) -> None:
    """Set the entries from *begin* up to *end*, exclusive, to *value*."""
    column[begin:end] = [value] * (end - begin)


def fill_range(column: list[int], begin: int, end: int, first: int) -> None:
    """Set the entries from *begin* up to *end*, exclusive, to *first* and its successors."""
    column[begin:end] = range(first, first + end - begin)


def sort_prefix(values: list[int], n: int) -> None:
    """Sort the first *n* entries of *values* in place, ascending."""
    values[:n] = sorted(values[:n])
