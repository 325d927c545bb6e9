"""Papers and their runs: conditions as scenarios, sampled costs, rules switched off in turn.

    Condition, server ─┬─ sample of all free constants ─► costs, unstated settings
                       └─ rule that is switched off ─► CurveTask ─► metrics along the axis

A claim that holds without any of the rules does not test the mechanism; a rule that no claim needs
is untested. Latin hypercubes cover each constant's range evenly even with few samples.

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
"""The papers by name, in the order of their age."""


class Ablation(NamedTuple):
    """A rule, and the settings that remove it.

    Attributes
    ----------
    name, says:
        The rule.
    free:
        Patterns of costs that become 0.
    values:
        Scenario keys to set instead, by mechanism; "" stands for all mechanisms.
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
            "/dev/poll queries only descriptors with a hint",
            values={"dev_poll": {"server.mechanism": "dev_poll_unhinted"}},
        ),
        Ablation(
            "signal bound",
            "the number of queued signals is bounded",
            values={"rt_signals": {"server.signal_queue": _NO_BOUND}},
        ),
        Ablation(
            "SIGIO first",
            "SIGIO, which reports lost signals, comes before queued signals",
            values={"rt_signals": {"server.overflow_told": "last"}},
        ),
        Ablation(
            "coalescing",
            "with signal-per-fd, one queued signal stands for all events of its descriptor",
            values={"signal_per_fd": {"server.mechanism": "rt_signals"}},
        ),
        Ablation(
            "batch",
            "a wait returns all ready descriptors",
            values={"": {"server.max_events": 1}},
        ),
    )
}
"""The rules by name."""


SEED = 20001

Drawn = Mapping[str, float]
"""The position of each free constant in its range, from -1 (low end) to 1 (high end)."""


def draws(constants: Sequence[str], n: int) -> list[Drawn]:
    """Return *n* samples of *constants*, the same ones at every call.

    Raises
    ------
    ValueError
        If *n* is not positive.
    """
    if n < 1:
        raise ValueError(f"samples must be at least 1, got {n}")
    sampler = qmc.LatinHypercube(d=len(constants), rng=np.random.default_rng(SEED))
    cube = 2 * sampler.random(n) - 1
    return [dict(zip(constants, row.tolist(), strict=True)) for row in cube]


class CurveTask(NamedTuple):
    """The runs of one server under one condition, along its axis, in one sample.

    `draw` counts samples from 0 to `n_draws`; `few` selects a fast setting; `ablation` names the
    rule that is switched off.
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
    """Return the names of all free constants of *paper*."""
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
    """Return whether a run changes without the rule."""
    mechanism = scenario_of(condition, server, condition.at[0]).server.mechanism
    if mechanism in ablation.values or "" in ablation.values:
        return True
    costs = central_profile(machine).cost
    without = central_profile(machine).without(ablation.free).cost
    if mechanism not in costs:  # borrowed costs change with their source
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
    """Simulate a task; it may run in a separate process.

    Raises
    ------
    ScenarioError
        If the paper's data gives an invalid scenario.
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
    """Return the scenario of a point; without *drawn*, at the middle of unstated ranges."""
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
    # All settings that the program stands for, except ablated ones.
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
    """Return the machine of *paper* in a sample."""
    constants = _drawn(paper, n_draws)[draw]
    return MACHINES[PAPERS[paper].machine].profile(constants.__getitem__)


@functools.cache
def central_profile(machine: str) -> Profile:
    """Return a period machine with all constants in the middle of their ranges."""
    return MACHINES[machine].profile(central)
