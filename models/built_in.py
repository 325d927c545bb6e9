"""All built-in programs, each with a world of the type that its engine is made for.

Costs and settings change no engine. It depends on the columns and records of the world alone, and
these follow from the program.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple, get_type_hints

from ..sim.engine.c.heap_calendar import MARGIN, heap_calendar
from ..sim.load.workload import closed_loop
from ..sim.state.columns import as_arrays
from ..sim.state.costs import Costs, Curve, flat
from ..sim.state.mechanism import Program
from ..sim.state.settings import RunSettings
from ..sim.state.world import World
from .catalogue import CATALOGUE, Entry, client_of, server_of
from .simulate import kept_as, prepare_world


class BuiltIn(NamedTuple):
    """A program of this package: *kept_as* is the name of its engine."""

    kept_as: str
    program: Program
    world: World


def built_in_programs() -> Iterator[BuiltIn]:
    """Yield the server of every mechanism, and the client where there is one."""
    for entry in CATALOGUE.values():
        yield _built_in(entry, server_of(entry))
        client = client_of(entry)
        if client is not None:
            yield _built_in(entry, client)


def _built_in(entry: Entry, program: Program) -> BuiltIn:
    """Return *program* for one user, whom one thread serves, and whose actions cost nothing."""
    name = kept_as(program)
    assert name is not None
    costs = _zero(Costs)._replace(mechanism=_zero(entry.costs))
    trace = closed_loop(users=1, connections=1)
    world = prepare_world(program, trace, costs, RunSettings(), as_arrays)
    world.calendar = heap_calendar(MARGIN)
    return BuiltIn(name, program, world)


@functools.cache
def _zero(table: Any) -> Any:
    """Return the named tuple of the type *table* whose costs are all 0."""
    return table(*(_zero_of(kind) for kind in get_type_hints(table).values()))


def _zero_of(kind: Any) -> Any:
    if kind is Curve:
        return flat(0)
    return _zero(kind) if hasattr(kind, "_fields") else 0
