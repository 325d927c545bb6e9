# Numba gives its functions their types; annotations would say less.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
"""The container operations of `sim.containers` on columns, as compiled code has them."""

from __future__ import annotations

from ..containers import fill, fill_range, heap_pop, heap_push, sort_prefix
from .parts import body_of


@body_of(heap_push)
def _heap_push(heap, n, value):
    def push(heap, n, value):
        i = n
        while i > 0 and value < heap[(i - 1) >> 1]:
            heap[i] = heap[(i - 1) >> 1]
            i = (i - 1) >> 1
        heap[i] = value

    return push


@body_of(heap_pop)
def _heap_pop(heap, n):
    def pop(heap, n):
        least, last = heap[0], heap[n - 1]
        i, child = 0, 1
        while child < n - 1:
            if child + 1 < n - 1 and heap[child + 1] < heap[child]:
                child += 1
            if last <= heap[child]:
                break
            heap[i] = heap[child]
            i, child = child, 2 * child + 1
        heap[i] = last
        return least

    return pop


@body_of(fill)
def _fill(column, begin, end, value):
    def fill_in(column, begin, end, value):
        for i in range(begin, end):
            column[i] = value

    return fill_in


@body_of(fill_range)
def _fill_range(column, begin, end, first):
    def fill_in(column, begin, end, first):
        for i in range(begin, end):
            column[i] = first + i - begin

    return fill_in


@body_of(sort_prefix)
def _sort_prefix(values, n):
    # Merging from the bottom up, with the rest of the column as the other place: a batch has half
    # of its descriptors to spare but where nearly all are ready, and then it is sorted in place.
    block = 16

    def sort(values, n):
        width = block if 2 * n <= len(values) else n
        for begin in range(0, n, width):
            for i in range(begin + 1, min(begin + width, n)):
                value = values[i]
                j = i
                while j > begin and values[j - 1] > value:
                    values[j] = values[j - 1]
                    j -= 1
                values[j] = value
        here, there = 0, n
        while width < n:
            for begin in range(0, n, 2 * width):
                left, middle = begin, min(begin + width, n)
                right, end = middle, min(begin + 2 * width, n)
                for k in range(begin, end):
                    if right >= end or (
                        left < middle and values[here + left] <= values[here + right]
                    ):
                        values[there + k] = values[here + left]
                        left += 1
                    else:
                        values[there + k] = values[here + right]
                        right += 1
            here, there = there, here
            width *= 2
        if here > 0:
            for i in range(n):
                values[i] = values[n + i]

    return sort
