"""Run the conditions of a paper: scenario files, at the costs of a machine as it is drawn."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..calibration.period.machine import central
from ..calibration.period.machines import MACHINES
from ..calibration.profiles.cost_profile import Profile
from ..running.preparation import job_of, run_job
from ..scenario.examples import scenario_path
from ..scenario.scenario import Scenario
from ..validation.papers.ablation import ABLATIONS, Ablation
from ..validation.papers.draws import Drawn, draws
from ..validation.papers.paper import Condition, Paper
from ..validation.papers.quantities import Key
from ..validation.papers.register import PAPERS
from ..validation.papers.run_figures import figures_of


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
        job = job_of(scenario, profile, seed=task.draw + 1)
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
