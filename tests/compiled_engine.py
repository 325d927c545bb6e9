# Numba gives its functions their types; annotations would say less.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""A compiled engine, small on purpose: the proof that models and substrate compile as they are.

The calendar is a heap in arrays, the world a Numba struct over the same fields, the CPU the loop
of `sim.reference` without SimPy. Everything else is the source that the reference runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numba import njit, types
from numba.experimental import structref
from numba.extending import overload, register_jitable

from dispatchsim.models.simulate import prepare_world, program_of
from dispatchsim.sim.containers import heap_pop, heap_push, sort_prefix
from dispatchsim.sim.costs import Costs
from dispatchsim.sim.event_calendar import RANK_SHIFT, schedule
from dispatchsim.sim.happenings import begin, happen
from dispatchsim.sim.kinds import NONE, SLEEP, Activity, Count
from dispatchsim.sim.outcome import Outcome, outcome_of
from dispatchsim.sim.settings import RunSettings
from dispatchsim.sim.workload import Trace
from dispatchsim.sim.world import World

_IDLE, _SLEEPS = int(Activity.IDLE), int(Count.SLEEPS)
_CALENDAR_ROOM = 1 << 16
_CPU_FIELDS = (
    "idle",
    "idle_from_ns",
    "irq_begin_ns",
    "irq_free_ns",
    "stolen_ns",
    "step_begin_ns",
    "step_stolen_ns",
    "activity",
    "n_samples",
    "mark_ns",
)


@structref.register
class CompiledWorldType(types.StructRef):
    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(t)) for name, t in fields)


_FIELDS = [f.name for f in fields(World) if f.name != "calendar"]
_EXTRA = ["heap_at_ns", "heap_key", "heap_subject", "n_heap", "sequence"]


class CompiledWorld(structref.StructRefProxy):
    def __new__(cls, values: dict[str, Any]) -> Any:
        heap = [np.zeros(_CALENDAR_ROOM, np.int64) for _ in range(3)]
        return structref.StructRefProxy.__new__(cls, *values.values(), *heap, 0, 0)


structref.define_proxy(CompiledWorld, CompiledWorldType, _FIELDS + _EXTRA)


@register_jitable
def _before(world, i, j):
    if world.heap_at_ns[i] != world.heap_at_ns[j]:
        return world.heap_at_ns[i] < world.heap_at_ns[j]
    return world.heap_key[i] < world.heap_key[j]


@register_jitable
def _swap(world, i, j):
    for column in (world.heap_at_ns, world.heap_key, world.heap_subject):
        column[i], column[j] = column[j], column[i]


@register_jitable
def push(world, at_ns, kind, subject):
    world.sequence += 1
    i = world.n_heap
    world.heap_at_ns[i] = at_ns
    world.heap_key[i] = (kind << RANK_SHIFT) + world.sequence
    world.heap_subject[i] = subject
    world.n_heap += 1
    while i > 0 and _before(world, i, (i - 1) // 2):
        _swap(world, i, (i - 1) // 2)
        i = (i - 1) // 2


@register_jitable
def drop_first(world):
    world.n_heap -= 1
    _swap(world, 0, world.n_heap)
    i = 0
    while True:
        least = i
        for child in (2 * i + 1, 2 * i + 2):
            if child < world.n_heap and _before(world, child, least):
                least = child
        if least == i:
            return
        _swap(world, i, least)
        i = least


@overload(schedule)
def _schedule(world, at_ns, kind, subject):
    return push


@overload(sort_prefix)
def _sort_prefix(values, n):
    def sort(values, n):
        values[:n] = np.sort(values[:n])

    return sort


@overload(heap_push)
def _heap_push(heap, n, value):
    def insert(heap, n, value):
        i = n
        heap[i] = value
        while i > 0 and heap[i] < heap[(i - 1) // 2]:
            heap[i], heap[(i - 1) // 2] = heap[(i - 1) // 2], heap[i]
            i = (i - 1) // 2

    return insert


@overload(heap_pop)
def _heap_pop(heap, n):
    def remove(heap, n):
        least = heap[0]
        heap[0] = heap[n - 1]
        i = 0
        while True:
            child = 2 * i + 1
            if child + 1 < n - 1 and heap[child + 1] < heap[child]:
                child += 1
            if child >= n - 1 or heap[i] <= heap[child]:
                return least
            heap[i], heap[child] = heap[child], heap[i]
            i = child

    return remove


def compile_engine(mechanism: str) -> Callable[[Any, int], None]:
    """Return the compiled engine for the event loop on *mechanism*."""
    program = program_of(mechanism)
    serve, notify = program.serve, program.mechanism.notify

    @register_jitable
    def next_ns(world):
        return world.heap_at_ns[0] if world.n_heap > 0 else 1 << 62

    @register_jitable
    def happen_next(world):
        world.now_ns = world.heap_at_ns[0]
        kind, subject = world.heap_key[0] >> RANK_SHIFT, world.heap_subject[0]
        drop_first(world)
        happen(world, kind, subject)
        if world.posted != NONE:
            notify(world, world.posted)

    @njit()
    def run(world, duration_ns):
        for step_ns in serve(world):
            if step_ns == SLEEP:
                world.counts[_SLEEPS] += 1
                world.idle = True
                world.idle_from_ns = world.now_ns
                while not world.woken or next_ns(world) <= max(world.now_ns, world.irq_free_ns):
                    if next_ns(world) > duration_ns:
                        return
                    happen_next(world)
                world.now_ns = max(world.now_ns, world.irq_free_ns)
                if world.now_ns > duration_ns:
                    return
                world.ledger_ns[_IDLE] += world.now_ns - world.idle_from_ns
                world.idle = False
                continue
            begin_ns = world.now_ns
            stolen_ns = world.stolen_ns
            world.step_begin_ns = begin_ns
            world.step_stolen_ns = stolen_ns
            done_ns = begin_ns + step_ns
            while next_ns(world) <= done_ns:
                if next_ns(world) > duration_ns:
                    return
                happen_next(world)
                done_ns = begin_ns + step_ns + world.stolen_ns - stolen_ns
            if done_ns > duration_ns:
                return
            world.now_ns = done_ns
            world.ledger_ns[world.activity] += step_ns

    return run


def run_compiled(
    engine: Callable[[Any, int], None],
    mechanism: str,
    trace: Trace,
    costs: Costs,
    settings: RunSettings,
) -> Outcome:
    """Run the compiled *engine* over the same world as the reference, and return its outcome."""
    world = prepare_world(mechanism, trace, costs, settings)
    prelude = _Prelude(world)
    begin(world, program_of(mechanism).mechanism, settings.warm_up_ns, settings.duration_ns)
    room = len(world.connection_of) + 1
    n_free = len(world.free_fds)
    world.free_fds.extend([0] * (room - n_free))
    values = {name: getattr(world, name) for name in _FIELDS}
    for name, value in values.items():
        if isinstance(value, list):
            # Numba wants no empty array of unknown type; nobody reads the extra entry.
            values[name] = np.array(value if value else [0], np.int64)
    state = CompiledWorld(values)
    for at_ns, kind, subject in prelude.scheduled:
        push_one(state, at_ns, kind, subject)
    engine(state, settings.duration_ns)
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            setattr(world, name, value.tolist())
    for name, value in zip(_CPU_FIELDS, cpu_fields(state), strict=True):
        setattr(world, name, value)
    return outcome_of(world, settings.duration_ns)


@njit()
def cpu_fields(world):
    return (
        world.idle,
        world.idle_from_ns,
        world.irq_begin_ns,
        world.irq_free_ns,
        world.stolen_ns,
        world.step_begin_ns,
        world.step_stolen_ns,
        world.activity,
        world.n_samples,
        world.mark_ns,
    )


class _Prelude:
    """Stands in for the calendar while the run is set up in Python."""

    def __init__(self, world: World) -> None:
        self.scheduled: list[tuple[int, int, int]] = []
        world.calendar = self

    def schedule_at(self, at_ns: int, kind: int, subject: int) -> None:
        self.scheduled.append((at_ns, kind, subject))


@njit()
def push_one(world, at_ns, kind, subject):
    push(world, at_ns, kind, subject)
