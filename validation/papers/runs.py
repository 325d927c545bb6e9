"""Papers and their runs: conditions as scenarios, at drawn costs, rules switched off in turn.

    Condition, server ─┬─ draw of all that is free ─► costs, what the paper does not state
                       └─ rule that is switched off ─► CurveTask ─► figures along the axis

A claim that holds whatever is switched off says nothing of the mechanism; a rule that no claim
needs might as well not be there. Latin hypercubes cover each constant's range evenly, however few
the draws are.

Source: McKay, Beckman and Conover 1979; `scipy.stats.qmc.LatinHypercube`.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import qmc

from ...calibration.period.machine import MACHINES, central
from ...calibration.profiles.cost_profile import Profile
from ...calibration.running.preparation import job_of, run_job
from ...scenario.examples import scenario_path
from ...scenario.scenario import Scenario
from . import (
    bruguera_2019,
    chandra_mosberger_2001,
    gammo_2004,
    mogul_ramakrishnan_1996,
    provos_lever_2000,
    provos_lever_tweedie_2000,
)
from .paper import Condition, Paper
from .quantities import Key, figures_of

PAPERS: dict[str, Paper] = {
    paper.name: paper
    for paper in (
        mogul_ramakrishnan_1996.PAPER,
        provos_lever_2000.PAPER,
        provos_lever_tweedie_2000.PAPER,
        chandra_mosberger_2001.PAPER,
        gammo_2004.PAPER,
        bruguera_2019.PAPER,
    )
}
"""By name, in the order of their age."""


class Ablation(NamedTuple):
    """A rule and what takes it away.

    Attributes
    ----------
    name, says:
        The rule.
    free:
        Patterns of costs that become 0.
    values:
        By mechanism, keys of the scenario that are set instead; "" stands for all mechanisms.
    """

    name: str
    says: str
    free: tuple[str, ...] = ()
    values: Mapping[str, Mapping[str, Any]] = {}


_NO_BOUND = 100_000

ABLATIONS: dict[str, Ablation] = {
    each.name: each
    for each in (
        Ablation(
            "wait-queue registration",
            "a poll that finds nothing ready enters a wait queue for each descriptor",
            free=("*.register", "*.release"),
        ),
        Ablation(
            "hint rule",
            "/dev/poll asks only descriptors that it was given a hint of",
            values={"dev_poll": {"server.mechanism": "dev_poll_unhinted"}},
        ),
        Ablation(
            "signal bound",
            "only so many signals may be queued",
            values={"rt_signals": {"server.signal_queue": _NO_BOUND}},
        ),
        Ablation(
            "SIGIO first",
            "that signals were lost is told before those that are queued",
            values={"rt_signals": {"server.overflow_told": "last"}},
        ),
        Ablation(
            "coalescing",
            "with signal-per-fd, one queued signal stands for all events of its descriptor",
            values={"signal_per_fd": {"server.mechanism": "rt_signals"}},
        ),
        Ablation(
            "batch",
            "a wait returns all that is ready",
            values={"": {"server.max_events": 1}},
        ),
    )
}
"""By name."""


SEED = 20001

Drawn = Mapping[str, float]
"""By the name of a free constant, from -1 (the low end of its range) to 1 (the high end)."""


def draws(constants: Sequence[str], n: int) -> list[Drawn]:
    """Return *n* draws of *constants*; the same ones whenever it is asked.

    Raises
    ------
    ValueError
        If *n* is not positive.
    """
    if n < 1:
        raise ValueError(f"draws must be at least 1, got {n}")
    sampler = qmc.LatinHypercube(d=len(constants), rng=np.random.default_rng(SEED))
    cube = 2 * sampler.random(n) - 1
    return [dict(zip(constants, row.tolist(), strict=True)) for row in cube]


class CurveTask(NamedTuple):
    """The runs of one server under one condition, all along its axis, in one draw.

    `draw` counts from 0 to `n_draws`; `few` is of a fast setting; `ablation` names the rule that is
    switched off.
    """

    paper: str
    condition: str
    server: str
    draw: int
    n_draws: int
    few: bool
    ablation: str = ""


Points = dict[Key, dict[str, float]]


def constants_of(paper: Paper) -> tuple[str, ...]:
    """Return the names of all that is free in *paper*."""
    return (*MACHINES[paper.machine].constants, *(u.key for u in paper.unstated))


def tasks_of(
    paper: Paper, conditions: Iterable[Condition], *, n_draws: int, few: bool, ablation: str = ""
) -> list[CurveTask]:
    """Return the tasks of all *conditions* of *paper*."""
    return [
        CurveTask(paper.name, condition.name, server, draw, n_draws, few, ablation)
        for draw in range(n_draws)
        for condition in conditions
        for server in condition.servers
        if not ablation or _affects(ABLATIONS[ablation], condition, server, paper.machine)
    ]


def _affects(ablation: Ablation, condition: Condition, server: str, machine: str) -> bool:
    """Return whether a run is another one without the rule."""
    mechanism = scenario_of(condition, server, condition.at[0]).server.mechanism
    if mechanism in ablation.values or "" in ablation.values:
        return True
    costs = central_profile(machine).cost
    without = central_profile(machine).without(ablation.free).cost
    if mechanism not in costs:  # what is lent changes with what lends it
        return without != costs
    return without[mechanism] != costs[mechanism]


def points_of(condition: Condition, *, few: bool) -> tuple[float, ...]:
    """Return the values on the axis that are run."""
    return condition.few_at if few and condition.few_at else condition.at


def first_scenarios(paper: Paper) -> Iterator[Scenario]:
    """Yield a scenario of each server under each condition of *paper*."""
    for condition in paper.all_conditions:
        x = points_of(condition, few=True)[0]
        for server in condition.servers:
            yield scenario_of(condition, server, x)


def run_curve(task: CurveTask) -> Points:
    """Simulate a task; a process of its own may be where.

    Raises
    ------
    ScenarioError
        If what the paper's file says makes no scenario.
    """
    paper = PAPERS[task.paper]
    condition = next(c for c in paper.all_conditions if c.name == task.condition)
    drawn = _drawn(task.paper, task.n_draws)[task.draw]
    ablation = ABLATIONS.get(task.ablation)
    profile = drawn_profile(task.paper, task.n_draws, task.draw)
    if ablation is not None:
        profile = profile.without(ablation.free)
    if task.server in condition.free:
        profile = profile.without(condition.free[task.server])
    found = {}
    for x in points_of(condition, few=task.few):
        scenario = scenario_of(condition, task.server, x, drawn, few=task.few, ablation=ablation)
        job = job_of(scenario, profile, task.draw + 1)
        found[condition.name, task.server, x] = figures_of(run_job(job).summary)
    return found


def scenario_of(
    condition: Condition,
    server: str,
    x: float,
    drawn: Drawn | None = None,
    *,
    few: bool = False,
    ablation: Ablation | None = None,
) -> Scenario:
    """Return the scenario of a point; without *drawn*, with the middle of what is unstated."""
    path = scenario_path(condition.scenario)
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    seconds = condition.few_seconds if few else condition.seconds
    values: dict[str, Any] = {
        "run.duration": f"{seconds:g} s",
        "run.warm_up": f"{condition.warm_up_s:g} s",
    }
    values |= {u.key: u.value((drawn or {}).get(u.key, 0.0)) for u in condition.unstated}
    values |= condition.servers[server]
    values[condition.axis] = f"{x:g}{condition.unit}" if condition.unit else round(x)
    values |= condition.also.get(x, {})
    scenario = _checked(content, values, str(path))
    if ablation is None:
        return scenario
    other = ablation.values.get(scenario.server.mechanism, ablation.values.get("", {}))
    if not other:
        return scenario
    # All that the program stands for, but for what is ablated.
    keys = scenario.server.model_dump(exclude_unset=True)
    values |= {f"server.{key}": value for key, value in keys.items()} | {"server.program": None}
    return _checked(content, {**values, **other}, str(path))


def _checked(content: Mapping[str, Any], values: Mapping[str, Any], source: str) -> Scenario:
    """Return the scenario of *content* with *values*; None takes a key away."""
    merged = {  # faults are a list of sections
        name: dict(section) if isinstance(section, Mapping) else section
        for name, section in content.items()
    }
    if "server.mechanism" in values and "server.program" not in values:
        values = {**values, "server.program": None}
    if values.get("server.program"):
        merged["server"].pop("mechanism", None)
    for key, value in values.items():
        section, name = key.split(".")
        if value is None:
            merged.get(section, {}).pop(name, None)
        else:
            merged.setdefault(section, {})[name] = value
    return Scenario.check(merged, source)


@functools.lru_cache(maxsize=4)
def _drawn(paper: str, n_draws: int) -> list[Drawn]:
    return draws(constants_of(PAPERS[paper]), n_draws)


@functools.lru_cache(maxsize=4)
def drawn_profile(paper: str, n_draws: int, draw: int) -> Profile:
    """Return the machine of *paper* in a draw."""
    constants = _drawn(paper, n_draws)[draw]
    return MACHINES[PAPERS[paper].machine].profile(constants.__getitem__)


@functools.cache
def central_profile(machine: str) -> Profile:
    """Return a period machine with all constants in the middle."""
    return MACHINES[machine].profile(central)
