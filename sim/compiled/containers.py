# Numba gives its functions their types; annotations would say less.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
"""The container operations of `sim.containers` on columns, as compiled code has them."""

from __future__ import annotations

from numba.extending import overload

from ..containers import fill, fill_range, heap_pop, heap_push, sort_prefix


@overload(heap_push)
def _heap_push(heap, n, value):
    def push(heap, n, value):
        i = n
        while i > 0 and value < heap[(i - 1) >> 1]:
            heap[i] = heap[(i - 1) >> 1]
            i = (i - 1) >> 1
        heap[i] = value

    return push


@overload(heap_pop)
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


@overload(fill)
def _fill(column, begin, end, value):
    def fill_in(column, begin, end, value):
        for i in range(begin, end):
            column[i] = value

    return fill_in


@overload(fill_range)
def _fill_range(column, begin, end, first):
    def fill_in(column, begin, end, first):
        for i in range(begin, end):
            column[i] = first + i - begin

    return fill_in


@overload(sort_prefix)
def _sort_prefix(values, n):
    # Shell's sort (Ciura's gaps): batches are short and nearly in order.
    gaps = (1750, 701, 301, 132, 57, 23, 10, 4, 1)

    def sort(values, n):
        for gap in gaps:
            for i in range(gap, n):
                value = values[i]
                j = i
                while j >= gap and values[j - gap] > value:
                    values[j] = values[j - gap]
                    j -= gap
                values[j] = value

    return sort
