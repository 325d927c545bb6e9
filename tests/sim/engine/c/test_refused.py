"""What cannot be translated is refused with file, line, source and cure, all of it at once."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sim.engine.c import refused as r
from tests.sim.engine.c.translated import functions_c, kinds_of
from tests.sim.engine.c.worlds import world_of

from dispatchsim.sim.engine.c.layout import record_type
from dispatchsim.sim.engine.c.shapes import INT, Record
from dispatchsim.sim.engine.c.source import CannotTranslateError

FILE = Path(r.__file__)


@pytest.mark.parametrize(
    "function",
    [
        r.many_faults,
        r.keeps_a_column,
        r.unassigned,
        r.of_itself,
        r.without_an_end,
        r.value_or_nothing,
        r.calls_itself,
        r.calls_with_a_default,
        r.calls_a_decorated_one,
        r.ends_a_loop_over_steps,
        r.keeps_what_a_loop_over_steps_assigns,
        r.with_another_worker,
        r.two_types,
        r.changes_what_is_fixed,
    ],
)
def test_every_fault_is_reported_with_its_line_and_its_cure(function: Any) -> None:
    lines, first = inspect.getsourcelines(function)
    expected = {
        (first + n, line.strip(), line.partition("#! ")[2].strip())
        for n, line in enumerate(lines)
        if "#!" in line
    }
    world = record_type(world_of(lists=False))
    with pytest.raises(CannotTranslateError) as refused:
        functions_c([(function, kinds_of(function, world))], world)
    message = str(refused.value).splitlines()
    places, sources = message[0::2], message[1::2]
    assert len(places) == len(expected)
    for place, source, (line, text, cure) in zip(places, sources, sorted(expected), strict=True):
        assert place.startswith(f"{FILE}:{line}: in {function.__name__}: ")
        assert cure in place
        assert source == f"    {text}"


def test_a_function_cannot_change_a_tuple_that_it_is_given() -> None:
    world = record_type(world_of(lists=False))
    costs = world.member("costs")
    assert isinstance(costs, Record)
    by_size = costs.member("by_size")
    numbers = world.member("numbers")
    assert by_size is not None
    assert numbers is not None
    functions_c([(r.changes_a_column_it_is_given, [numbers, INT])], world)
    with pytest.raises(CannotTranslateError, match=r"entry of the column Costs\.by_size"):
        functions_c([(r.changes_a_column_it_is_given, [by_size, INT])], world)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 3), np.int64),
        np.zeros((3, 2), np.int64).T,
        np.arange(8)[::2],
        np.zeros((), int),
    ],
)
def test_an_array_that_is_no_column_is_refused(array: Any) -> None:
    world = world_of(lists=False)
    world.numbers = array
    with pytest.raises(CannotTranslateError, match=r"World\.numbers: must be an array of one dim"):
        record_type(world)


MINE = """
def same(a):
    return a + 1


def changed(a):
    return a + 1
"""


def test_a_function_whose_file_has_changed_since_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    names: dict[str, Any] = {}
    exec(compile(MINE, file, "exec"), names)
    file.write_text(MINE.replace("a + 1", "a + 2").replace("a + 2", "a + 1", 1))
    world = record_type(world_of(lists=False))
    functions_c([(names["same"], [INT])], world)
    with pytest.raises(
        CannotTranslateError, match=r"mine\.py has changed since changed was defined"
    ):
        functions_c([(names["changed"], [INT])], world)
