"""Each construct of the restricted Python does in C what it does in CPython."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from tests.sim.engine.c import constructs as c
from tests.sim.engine.c.translated import Translated, by_cpython
from tests.sim.engine.c.worlds import world_of

LEAST, MOST = -(2**63), 2**63 - 1

CASES: list[tuple[Any, tuple[int, ...], int]] = [
    (c.arithmetic, (12, 10), 12 + 30 - 8 + 14 - 6),
    (c.floor_division, (-7, 2), -4),
    (c.floor_division, (7, -2), -4),
    (c.floor_division, (-7, -2), 3),
    (c.floor_division, (LEAST, 3), -3074457345618258603),
    (c.floor_division, (MOST, -1), -MOST),
    (c.modulo, (-7, 2), 1),
    (c.modulo, (7, -2), -1),
    (c.modulo, (-7, -2), -1),
    (c.modulo, (LEAST, -1), 0),
    (c.modulo, (LEAST, MOST), MOST - 1),
    (c.shifts, (-5, 1), -10 - 3),
    (c.shifts, (0, 80), 0),
    (c.signs, (9,), -9 - 10 + 9),
    (c.least_number, (), LEAST),
    (c.smallest_and_largest, (-3, 8), -300 + 8 + 3),
    (c.smallest_and_largest, (9, 8), 500 + 9 + 9),
    (c.truth_values_as_numbers, (3, 4), 101),
    (c.truth_values_as_numbers, (0, 0), 10),
    (c.constants, (), 14 + 2**40 + 2 + 32 - 3),
    (c.chained, (3, 9), 1),
    (c.chained, (4, 9), 0),
    (c.chained, (3, 7), 0),
    (c.deciding_values, (0, 4), 400),
    (c.deciding_values, (3, 4), 304),
    (c.short_circuit, (1,), 1),
    (c.short_circuit, (0,), 0),
    (c.negation, (0, 1), 3),
    (c.negation, (5, 1), 0),
    (c.membership, (7,), 3),
    (c.membership, (2,), 0),
    (c.conditional, (2, 5), -5),
    (c.dropped_branches, (), 3),
    (c.dropped_parts, (2,), 20_270),
    (c.dropped_parts, (0,), 770),
    (c.calls_from_the_left, (), 3 + 40 + 400 + 5000),
    (c.arguments_from_the_left, (), -100 + 5),
    (c.value_before_place, (), 3),
    (c.place_before_old_value, (), 78),
    (c.assignments, (1, 2), 5),
    (c.swapped_entries, (), 70),
    (c.branches, (-5,), -1),
    (c.branches, (0,), 0),
    (c.branches, (8,), 1),
    (c.loops, (9,), 80_913),
    (c.loops, (-2,), 80_003),
    (c.last_steps_of_64_bits, (), 2),
    (c.asserted, (4,), 4),
    (c.calls_nothing, (), 1),
    (c.records, (), -1000 - 11 + 3),
    (c.truths, (), 1),
    (c.tuples, (), 30 - 700 - 9 + 1),
    (c.frozen, (), 71),
    (c.columns, (50,), (2**31 - 1) ** 2 + 4),
    (c.narrow, (-128,), -128),
    (c.entry, (7,), MOST),
    (c.argument_of_a_constant, (2,), 15),
    (c.fault_in_elif, (1,), 2),
    (c.generator_with_a_value, (), 233),
    (c.loop_over_steps, (), 0),
    (c.dropped_steps, (), 7),
    (c.dropped_and_taken_steps, (), 1_106),
    (c.loop_within_a_loop, (), 0),
    (c.hidden_world, (), 7),
    (c.register, (1, 2, 3, 4, 5, 6, 7, 8), 41),
    (c.leave, (1, 2, 3), 16),
    (c.main, (4,), 23),
]


@functools.cache
def in_c(*, is_checked: bool) -> Translated:
    """Return all constructs in C, compiled together."""
    return Translated(list(dict.fromkeys(case[0] for case in CASES)), is_checked=is_checked)


@pytest.mark.parametrize("is_checked", [True, False])
@pytest.mark.parametrize(
    ("function", "given", "expected"), CASES, ids=[f"{f.__name__}{g}" for f, g, _ in CASES]
)
def test_a_construct_gives_the_same_value_and_the_same_world(
    function: Any, given: tuple[int, ...], expected: int, *, is_checked: bool
) -> None:
    world, expected_world = world_of(lists=False), world_of(lists=True)
    assert (by_cpython(function, *given, world=expected_world) or 0) == expected
    assert in_c(is_checked=is_checked)(function, *given, world=world) == expected
    assert world.values() == expected_world.values()


FAULTS = [
    (c.floor_division, (1, 0), 1, ZeroDivisionError),
    (c.modulo, (1, 0), 1, ZeroDivisionError),
    (c.shifts, (1, -1), 1, ValueError),
    (c.asserted, (0,), 1, AssertionError),
    (c.entry, (8,), 1, IndexError),
    (c.entry, (-1,), 1, IndexError),
    (c.narrow, (-129,), 1, OverflowError),
    (c.narrow, (128,), 1, OverflowError),
    (c.argument_of_a_constant, (8,), 1, IndexError),
    (c.argument_of_a_constant, (3,), 1, ZeroDivisionError),
    (c.fault_in_elif, (8,), 3, IndexError),
]


@pytest.mark.parametrize(("function", "given", "line", "error"), FAULTS)
def test_a_fault_is_reported_with_the_line_of_the_python_source(
    function: Any, given: tuple[int, ...], line: int, error: type[Exception]
) -> None:
    at = function.__code__.co_firstlineno + line
    with pytest.raises(error, match=rf"constructs\.py, line {at}: "):
        in_c(is_checked=True)(function, *given)
    with pytest.raises(error):
        by_cpython(function, *given)
    assert in_c(is_checked=True)(c.asserted, 4) == 4  # the next call works
