"""Columns of a run: lists for the interpreter and arrays for compiled code hold the same."""

import numpy as np
import pytest

from dispatchsim.sim.state.columns import MakeColumn, as_arrays, as_lists

BOTH = pytest.mark.parametrize("column", [as_lists, as_arrays])


@BOTH
def test_one_value_fills_a_column_from_the_first_entry_on(column: MakeColumn) -> None:
    assert list(column(3, 7, np.int32)) == [7, 7, 7]
    assert list(column(4, -1, np.int64, 2)) == [0, 0, -1, -1]


@BOTH
def test_entries_without_a_value_are_0(column: MakeColumn) -> None:
    assert list(column(5, np.array([7, 8]), np.int32, 2)) == [0, 0, 7, 8, 0]
    assert list(column(3, np.array([7, 8]), np.int64)) == [7, 8, 0]


@BOTH
def test_a_run_does_not_write_into_what_it_was_given(column: MakeColumn) -> None:
    given = np.array([7, 8, 9], np.int64)
    column(3, given, np.int64)[0] = 1
    assert given.tolist() == [7, 8, 9]


def test_an_array_refuses_what_its_type_cannot_hold() -> None:
    with pytest.raises(OverflowError, match="a value of 1 to 128 does not fit int8"):
        as_arrays(2, np.array([1, 128]), np.int8)
    with pytest.raises(OverflowError, match="-129"):
        as_arrays(2, -129, np.int8)
