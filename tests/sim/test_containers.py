"""What differs between lists and arrays does the same on both."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import dispatchsim.sim.compiled.containers  # noqa: F401 (registers the compiled bodies)
from dispatchsim.sim.containers import heap_pop, heap_push, sort_prefix


@njit()
def _heap_through(values, out):  # type: ignore[no-untyped-def]
    heap: Any = np.zeros(values.size + 1, np.int64)
    n = 0
    for value in values:
        heap_push(heap, n, value)
        n += 1
    for i in range(values.size):
        out[i] = heap_pop(heap, n)
        n -= 1


@njit()
def _sort(values, n):  # type: ignore[no-untyped-def]
    sort_prefix(values, n)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=40))
def test_heaps_give_the_least_first(values: list[int]) -> None:
    heap: list[int] = []
    for n, value in enumerate(values):
        heap_push(heap, n, value)
    popped = [heap_pop(heap, n) for n in range(len(values), 0, -1)]
    compiled = np.zeros(len(values), np.int64)
    _heap_through(np.array(values, np.int64), compiled)
    assert popped == compiled.tolist() == sorted(values)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=40), st.data())
def test_only_the_prefix_is_sorted(values: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(0, len(values)))
    compiled = np.array(values, np.int64)
    expected = sorted(values[:n]) + values[n:]
    sort_prefix(values, n)
    _sort(compiled, n)
    assert values == compiled.tolist() == expected


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=300), st.integers(0, 400))
def test_batches_are_sorted_with_and_without_room_beside_them(values: list[int], room: int) -> None:
    column = np.array(values + [7] * room, np.int32)
    _sort(column, len(values))
    assert column[: len(values)].tolist() == sorted(values)
