"""A mechanism of the student's own, in the common event loop, with the costs of another mechanism.

               interrupt          own wait: a generator that yields nanoseconds
    NIC ──────────► ready ──────────────► hand_over(...) ──────────► read, write
                               sleep(...) if none is ready

The student writes only the wait. The kernel's records of each descriptor, and the cost of declaring
an interest, are those of the base mechanism. It is level-triggered: a descriptor handed over stays
ready until a check finds that it is not. It runs on the reference engine, as plain Python.

It races against others under the same arrivals:

    names and own mechanisms ──► same seeds, same load ──► experiment: latency, CPU, by load

The mechanism has the costs of its base, so the race compares ideas and not measurements of costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..models.epoll.epoll_level import EPOLL_LEVEL
from ..models.scans.poll_pollfd import POLL
from ..scenario.errors import UserError
from ..scenario.scenario import Scenario
from ..sim.kernel.interest_set import is_ready, list_ready, take_first
from ..sim.kernel.sleeping import sleep as sleep_of_servers
from ..sim.state.kinds import NONE, activity, count
from ..sim.state.mechanism import Mechanism
from ..sim.state.world import Worker, World
from .experiments import Case, Experiment, experiment, open_loop, scenario

Wait = Callable[[World, Worker], Iterator[int]]
"""(world, worker) -> iterator of the CPU time, in ns, of each step of one wait."""
_BASES = {mechanism.name: mechanism for mechanism in (EPOLL_LEVEL, POLL)}


def own_mechanism(name: str, wait: Wait, *, base: str = "epoll_level") -> Mechanism:
    """Return a mechanism with this *wait*; everything else is as in *base*.

    Parameters
    ----------
    name:
        Name in tables and pictures; not that of an existing mechanism.
    wait:
        A generator of the CPU time, in ns, of each step of one wait, that ends with `hand_over`.
    base:
        "epoll_level" or "poll": the mechanism whose interest set and costs it has.

    Raises
    ------
    UserError
        If the name is in use, or the base is none of these.
    """
    from ..models.catalogue import MECHANISMS

    if name in MECHANISMS:
        raise UserError(f'name: must not be that of an existing mechanism, got "{name}"')
    if base not in _BASES:
        raise UserError(f'base: must be one of {", ".join(_BASES)}, got "{base}"')

    def counted(world: World, worker: Worker) -> Iterator[int]:
        worker.activity = activity.WAIT
        worker.n_events = 0
        world.counts[count.WAITS] += 1
        for step_ns in wait(world, worker):
            yield step_ns
            worker.activity = activity.WAIT
        if worker.n_events == 0:
            raise UserError(f"{name}: a wait must end with hand_over of at least one descriptor")

    return _BASES[base]._replace(name=name, wait=counted)


def base_of(mechanism: Mechanism) -> str:
    """Return the name of the mechanism whose costs *mechanism* has.

    Raises
    ------
    UserError
        If it was not made by `own_mechanism`.
    """
    for name, base in _BASES.items():
        if mechanism.watch is base.watch:
            return name
    raise UserError(
        f"{mechanism.name}: must be made by own_mechanism, which gives it the costs of its base"
    )


def ready(world: World, worker: Worker) -> list[int]:
    """Return the ready descriptors, in the order in which they became ready."""
    interests = worker.interests
    found = []
    for _ in range(interests.n_ready):
        fd = take_first(world, interests)
        if fd == NONE:
            continue
        world.passed[fd] = 0
        if is_ready(world, fd):
            found.append(fd)
    for fd in found:
        list_ready(world, interests, fd)
    return found


def sleep(world: World, worker: Worker) -> Iterator[int]:
    """Block until a descriptor becomes ready; yield the CPU times of sleeping and waking."""
    return sleep_of_servers(world, worker)


def hand_over(world: World, worker: Worker, fds: Sequence[int]) -> None:
    """Return from the wait with these descriptors, to be served in this order.

    Raises
    ------
    UserError
        If one is not ready, or listed twice.
    """
    known = set(ready(world, worker))
    if len(set(fds)) < len(fds) or not known.issuperset(fds):
        raise UserError(f"fds: must be ready descriptors, each once, got {list(fds)}")
    for i, fd in enumerate(fds):
        worker.event_fd[i] = fd
    worker.n_events = len(fds)
    world.counts[count.EVENTS] += len(fds)


RATES_PER_S = (2_000, 10_000, 18_000)
"""Connections per second, up to 0.9 of the capacity of an epoll server in the lessons' profile."""


def race(
    mechanisms: Sequence[str | Mechanism],
    *,
    rates_per_s: Sequence[float] = RATES_PER_S,
    idle: int = 0,
    figures: Sequence[str] = ("latency_p50_us", "latency_p99_us", "cpu_busy_percent"),
    **sections: Any,
) -> Experiment:
    """Return the performance of *mechanisms* at several loads.

    Parameters
    ----------
    mechanisms:
        Names of mechanisms, or mechanisms made by `own_mechanism`.
    rates_per_s:
        Connections offered, one request each.
    idle:
        Connections that are open and silent.
    figures:
        Metrics in the table and the picture.
    sections:
        Further sections of the scenario: `load={"requests": 4}`.

    Raises
    ------
    UserError, ScenarioError
        If there is no mechanism, two have one name, or the scenario breaks a rule.
    """
    names = [m if isinstance(m, str) else m.name for m in mechanisms]
    if not names or len(set(names)) < len(names):
        raise UserError(f"mechanisms: must be at least 1, each once, got {', '.join(names)}")
    cases: list[Case] = []
    for mechanism in mechanisms:
        base = mechanism if isinstance(mechanism, str) else base_of(mechanism)
        own = None if isinstance(mechanism, str) else mechanism
        name = mechanism if isinstance(mechanism, str) else mechanism.name
        for rate in rates_per_s:
            cases.append(Case(name, rate, _at(base, rate, idle, sections), mechanism=own))
    return experiment(
        f"{' against '.join(names)}, {idle:,} idle connections",
        cases,
        figures=figures,
        axis="connections offered per second",
    )


def _at(mechanism: str, rate_per_s: float, idle: int, sections: dict[str, Any]) -> Scenario:
    own: dict[str, dict[str, Any]] = {
        "server": {"mechanism": mechanism},
        "load": open_loop(rate_per_s),
        "idle": {"connections": idle},
    }
    return scenario(**{**sections, **{k: {**sections.get(k, {}), **v} for k, v in own.items()}})
