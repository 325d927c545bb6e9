# The translator gives these their types, another for each column.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""What C has instead of functions written for the interpreter, in the restricted Python."""

from __future__ import annotations

from ...kernel.sockets import request_ns
from ...state.kinds import activity

_BLOCK = 16


def spend(worker, activity, cost_ns):
    """Spend *cost_ns* of CPU time on *activity*: one step, or none if it costs nothing."""
    assert cost_ns >= 0
    if cost_ns > 0:
        worker.activity = activity
        yield cost_ns


def step(worker, activity, cost_ns):
    """Spend *cost_ns* of CPU time on *activity* in a step, even if it is 0."""
    worker.activity = activity
    yield cost_ns


def is_led(world, c):
    """Return False: no process of SimPy is the client of *c*."""
    return False


def call_python(world):
    """Have the loop return to Python before the next occurrence, as if the calendar were full."""
    world.calendar.full = 0
    world.calendar.quiet_ns = -1


def user_code(world, worker, fd):
    """Spend the CPU time of the application's part of a request: no process of SimPy takes part."""
    cost_ns = request_ns(world, fd)
    assert cost_ns >= 0
    if cost_ns > 0:
        worker.activity = activity.USER
        yield cost_ns


def fill(column, begin, end, value):
    """Set the entries from *begin* up to *end*, exclusive, to *value*."""
    for i in range(begin, end):
        column[i] = value


def fill_range(column, begin, end, first):
    """Set the entries from *begin* up to *end*, exclusive, to *first* and its successors."""
    for i in range(begin, end):
        column[i] = first + i - begin


def sort_prefix(values, n):
    """Sort the first *n* entries of *values*, ascending.

    Merging needs as much free room as entries. Without it the entries are sorted in place.
    """
    width = _BLOCK if 2 * n <= len(values) else n
    begin = 0
    while begin < n:
        sort_block(values, begin, min(begin + width, n))
        begin += width
    here = 0
    while width < n:
        begin = 0
        while begin < n:
            merge(values, here, n - here, begin, width)
            begin += 2 * width
        here = n - here
        width *= 2
    if here > 0:
        for i in range(n):
            values[i] = values[n + i]


def sort_block(values, begin, end):
    """Sort the entries from *begin* up to *end*, exclusive, by insertion."""
    for i in range(begin + 1, end):
        value = values[i]
        j = i
        while j > begin and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


def merge(values, here, there, begin, width):
    """Merge two sorted runs of *width*, or fewer, from *begin* on at *here* into one at *there*."""
    n = here + there
    middle, end = min(begin + width, n), min(begin + 2 * width, n)
    left, right = begin, middle
    for k in range(begin, end):
        if right >= end or (left < middle and values[here + left] <= values[here + right]):
            values[there + k] = values[here + left]
            left += 1
        else:
            values[there + k] = values[here + right]
            right += 1
