"""A race: mechanisms, the student's own among them, under the same arrivals.

    names and own mechanisms ──► same seeds, same load ──► experiment: latency, CPU, by load

One's own mechanism has the prices of its base, so that the race is about the idea and not about
who was priced by whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..scenario.errors import UserError
from ..scenario.scenario import Scenario
from ..sim.state.mechanism import Mechanism
from .experiments import Case, Experiment, experiment, scenario
from .own_mechanisms import base_of

RATES_PER_S = (2_000, 10_000, 18_000)
"""Connections a second, up to nine tenths of what an epoll server of the default profile can do."""


def race(
    mechanisms: Sequence[str | Mechanism],
    *,
    rates_per_s: Sequence[float] = RATES_PER_S,
    idle: int = 0,
    figures: Sequence[str] = ("latency_p50_us", "latency_p99_us", "cpu_busy_percent"),
    **sections: Any,
) -> Experiment:
    """Return how *mechanisms* do at each of some loads.

    Parameters
    ----------
    mechanisms:
        Names of mechanisms there are, or those that `own_mechanism` made.
    rates_per_s:
        Connections offered, one request each.
    idle:
        Connections that are open and silent.
    figures:
        Of the table and the picture.
    sections:
        Anything else of a scenario: `load={"requests": 4}`.

    Raises
    ------
    UserError, ScenarioError
        If there is nobody to race, two have one name, or the scenario breaks a rule.
    """
    names = [m if isinstance(m, str) else m.name for m in mechanisms]
    if not names or len(set(names)) < len(names):
        raise UserError(f"mechanisms: must be at least 1, each once, got {', '.join(names)}")
    cases = []
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
        "load": {"loop": "open", "rate": f"{rate_per_s}/s"},
        "idle": {"connections": idle},
    }
    return scenario(**{**sections, **{k: {**sections.get(k, {}), **v} for k, v in own.items()}})
