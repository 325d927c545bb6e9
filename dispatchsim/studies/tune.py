"""Which setting is best: accept limit, events a wait, backlog, a limiter's gain ...

    options ─► first replications ─► those that meet the objective ─► more of those that may be best
                                                                       └► one is left, or the rest
                                                                          differs by too little

All options have the same arrivals. With 95% confidence the answer is the best option, if it beats
the next by the difference that matters; otherwise it is one of those as good. Options that the
budget of replications leaves open are compared once, at the end, by paired differences
(sim/output_analysis/comparison.py).

Source: Kim and Nelson 2001 (sim/output_analysis/sequential.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..calibration.profiles.cost_profile import Profile
from ..scenario.errors import UserError
from ..scenario.metrics import ASKED_AS, METRICS
from ..scenario.scenario import Scenario, check_scenario
from ..sim.output_analysis.comparison import rank
from ..sim.output_analysis.sequential import Selection
from ..store.records import Record, Run
from ..store.work import Progress, simulate_all
from .factors import (
    Factor,
    check_profile,
    design,
    names_of,
    points_of,
    points_warnings,
    profiles_of,
    read_factors,
)
from .objective import (
    Aim,
    Clause,
    Objective,
    read_objective,
)
from .rows import Option, Swept

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..store.store import Store

FIRST = 10
REPLICATIONS_MAX = 100
MATTERS = 0.02
LEVEL = 0.95
_LEVEL_OF_EACH = (1 + LEVEL) / 2
"""Of the selection and of the ranking after it: together they err in at most 5% of cases."""


@dataclass(frozen=True, repr=False)
class Tuning:
    """The options, best first: those that meet the objective before those that violate it."""

    scenario: Scenario
    profile: str
    aim: str
    largest: bool
    objective: Objective | None
    options: tuple[Option, ...]
    is_certain: bool
    warnings: tuple[str, ...]

    @property
    def best(self) -> Option | None:
        """The selected option; None if none meets the objective."""
        return next((o for o in self.options if o.stays), None)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        best = self.best
        if best is None:
            nearest = self.options[0]
            assert nearest.broken is not None
            value = nearest.swept.estimate(nearest.broken.figure).mean
            text = ASKED_AS[nearest.broken.name].exact(value, digits=3)
            return (
                f"no combination meets {self.objective}: the nearest is {nearest.words}, where "
                f"{nearest.broken.name} is {text}"
            )
        text = f"best: {best.words} ({self._value(best)})"
        others = [o.words for o in self.options if o.stays and o is not best]
        if others:
            how = "equal in every run" if self.is_certain else "perhaps as good"
            text += f"; {how}: {'; '.join(others[:4])}"
            if len(others) > 4:
                text += f" and {len(others) - 4} more"
        return text

    def _value(self, option: Option) -> str:
        metric = METRICS[self.aim]
        return f"{metric.short} {metric.exact(option.swept.estimate(self.aim).mean, digits=3)}"

    @property
    def frame(self) -> pd.DataFrame:
        """One row per option, best first."""
        import pandas as pd

        rows = []
        for option in self.options:
            known = option.swept.estimate(self.aim)
            rows.append(
                {
                    **option.swept.levels,
                    self.aim: known.mean,
                    f"{self.aim}_half_width": known.half_width,
                    "replications": len(option.swept.central),
                    "verdict": str(option.swept.verdict),
                    "broken": _text(option.broken),
                    "may_be_best": option.stays,
                }
            )
        return pd.DataFrame(rows)

    def plot(self) -> Figure:
        """Return the picture: every option with its interval, best at the top."""
        from .pictures import tuning_figure

        return tuning_figure(
            self.options,
            self.aim,
            mechanism=self.scenario.server.mechanism,
            warnings=self.warnings,
        )

    def _repr_html_(self) -> str:
        return self.frame.to_html()

    def __repr__(self) -> str:
        """Return the answer in short: all of its runs would fill a screen."""
        return f"<Tuning: {self.sentence}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            "format": "dispatchsim-tuning/2",
            "scenario": self.scenario.to_dict(),
            "profile": self.profile,
            "aim": self.aim,
            "largest": self.largest,
            "objective": None if self.objective is None else str(self.objective),
            "answer": self.sentence,
            "warnings": list(self.warnings),
            "options": [
                {
                    "levels": o.swept.levels,
                    "estimate": o.swept.estimate(self.aim).to_dict(),
                    "replications": len(o.swept.central),
                    "verdict": str(o.swept.verdict),
                    "broken": _text(o.broken),
                    "may_be_best": o.stays,
                }
                for o in self.options
            ],
        }


def tune(
    scenario: Scenario,
    vary: Sequence[Factor | str],
    *,
    minimise: str | None = None,
    maximise: str | None = None,
    objective: Objective | str | None = None,
    samples: int | None = None,
    matters: float = MATTERS,
    replications_max: int = REPLICATIONS_MAX,
    profile: Profile | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Tuning:
    """Return which option is best.

    Parameters
    ----------
    vary:
        Options: "server.accept_limit=1,10,100,0"; several fields give all combinations, or
        *samples* of them.
    minimise, maximise:
        A metric as in objectives, such as p99 or throughput; neither: p99 is minimised.
    objective:
        An option must meet it, by the means of its runs, to be chosen.
    matters:
        The smallest difference that matters, as a share of the best mean so far.
    replications_max:
        Maximum replications per option; options left then count as "perhaps as good".

    Raises
    ------
    UserError, ScenarioError
        If there is only one option, or an argument breaks a rule.
    """
    check_scenario(scenario)
    aim = _aim(minimise, maximise, scenario)
    wanted = read_objective(objective) if isinstance(objective, str) else objective
    if not 0 < matters < 1:
        raise UserError(f"matters: must be a share between 0 and 1, got {matters}")
    if replications_max < FIRST:
        raise UserError(f"replications: must be at least {FIRST}, got {replications_max}")
    factors = read_factors(vary)
    check_profile(factors, profile)
    points = points_of(scenario, design(factors, samples, scenario.run.seed))
    if len(points) < 2:
        raise UserError(f"vary: must give at least two options, got {len(points)}")
    profiles = profiles_of(points, profile)

    figures = [aim.figure, *(clause.figure for clause in (wanted.clauses if wanted else ()))]

    def replicate(which: Sequence[int], begin: int, end: int) -> list[list[Record]]:
        first = scenario.run.seed
        seeds = range(first + begin, first + end)
        runs = [Run(points[i].scenario, profiles[i], seed) for i in which for seed in seeds]
        found = simulate_all(
            runs, figures=figures, store=store, executor=executor, progress=progress
        )
        return [found[k : k + len(seeds)] for k in range(0, len(found), len(seeds))]

    is_random = any(point.scenario.is_random for point in points)
    n_first = FIRST if is_random else 1
    records = replicate(range(len(points)), 0, n_first)
    candidates = [i for i, own in enumerate(records) if _broken(wanted, own) is None]
    staying, is_certain = _select(
        candidates, records, replicate, aim=aim, matters=matters, most=replications_max
    )
    options = []
    for i, (point, own) in enumerate(zip(points, records, strict=True)):
        broken = _broken(wanted, own)  # by all runs: the first ones may be unrepresentative
        stays = i in staying and broken is None
        swept = Swept(point.levels, point.scenario, tuple(own), True)
        options.append(Option(swept, broken, _beyond(broken, own), stays))
    sign = -1 if aim.largest else 1
    options.sort(key=lambda o: (o.beyond, not o.stays, sign * _mean(o, aim)))
    return Tuning(
        scenario,
        names_of(profiles),
        aim.figure,
        aim.largest,
        wanted,
        tuple(options),
        is_certain,
        tuple(points_warnings(points, profiles)),
    )


def _mean(option: Option, aim: Aim) -> float:
    return sum(map(aim.value, option.swept.central)) / len(option.swept.central)


def _aim(minimise: str | None, maximise: str | None, scenario: Scenario) -> Aim:
    if minimise is not None and maximise is not None:
        raise UserError("maximise: must be absent where minimise is given")
    option = "minimise" if maximise is None else "maximise"
    name = maximise or minimise or "p99"
    try:
        is_known = ASKED_AS.has(name)
    except UserError as error:
        raise UserError(f"{option}: {error}") from None
    if not is_known:
        raise UserError(f"{option}: must be one of {', '.join(ASKED_AS)}, got {name}")
    return Aim.of(ASKED_AS[name], largest=maximise is not None, scenario=scenario)


def _broken(objective: Objective | None, records: Sequence[Record]) -> Clause | None:
    """Return the first bound that the means of an option's runs violate."""
    if objective is None:
        return None
    return objective.broken_by({c.figure: _mean_of(c.figure, records) for c in objective.clauses})


def _beyond(broken: Clause | None, records: Sequence[Record]) -> float:
    """Return the ratio of the metric to its bound; 1 if none is violated."""
    if broken is None:
        return 1.0
    value = _mean_of(broken.figure, records)
    if math.isnan(value):
        return math.inf
    passed, bound = (value, broken.bound) if broken.sign == "<" else (broken.bound, value)
    return passed / bound if bound > 0 else math.inf


def _mean_of(figure: str, records: Sequence[Record]) -> float:
    return sum(record.figures[figure] for record in records) / len(records)


def _text(clause: Clause | None) -> str | None:
    return None if clause is None else str(clause)


def _select(
    candidates: list[int],
    records: list[list[Record]],
    replicate: Callable[[Sequence[int], int, int], list[list[Record]]],
    *,
    aim: Aim,
    matters: float,
    most: int,
) -> tuple[list[int], bool]:
    """Return the candidates that may be best, and whether this is certain; extends *records*.

    Candidates equal to the best in every run are certainly as good.
    """
    if len(candidates) < 2:
        return candidates, True
    table = np.array([[aim.value(record) for record in records[i]] for i in candidates]).T
    means = table.mean(axis=0)
    best = float(means.max() if aim.largest else means.min())
    if len(table) == 1:  # nothing is random
        return [i for i, mean in zip(candidates, means, strict=True) if mean == best], True
    zone = matters * abs(best)
    if not 0 < zone < math.inf:  # no scale for a difference, as with errors of 0
        perhaps = rank(table, largest=aim.largest, level=LEVEL).perhaps_best
        return [candidates[k] for k in perhaps], len(perhaps) == 1
    selection = Selection(
        len(candidates), zone, largest=aim.largest, n_first=FIRST, level=_LEVEL_OF_EACH
    )
    n = 0
    while selection.best is None and n < most:
        staying = [candidates[k] for k in selection.staying]
        if n == len(records[staying[0]]):
            more = replicate(staying, n, min(2 * n, most))
            for i, added in zip(staying, more, strict=True):
                records[i] += added
        selection.feed([aim.value(records[i][n]) for i in staying])
        n += 1
    staying = [candidates[k] for k in selection.staying]
    if selection.best is None:
        table = np.array([[aim.value(record) for record in records[i]] for i in staying]).T
        perhaps = rank(table, largest=aim.largest, level=_LEVEL_OF_EACH).perhaps_best
        return [staying[k] for k in perhaps], len(perhaps) == 1
    winner = [aim.value(record) for record in records[staying[0]]]
    equal = [
        i for i in candidates if [aim.value(r) for r in records[i]] == winner[: len(records[i])]
    ]
    return equal, True
