"""Mechanisms (or other settings) against each other over a grid: who is best where.

    grid of the others ─► each contender, the same arrivals ─► paired ─► who may be the best

At each point contenders are told apart by paired differences with a corrected error rate
(sim/output_analysis/comparison.py): with 95% none of the statements of that point is wrong. Pairs
are of equal seeds, as many as all contenders have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..calibration.profiles.cost_profile import Profile
from ..scenario.errors import UserError
from ..scenario.metrics import ASKED_AS, LEVEL_METRIC, METRICS
from ..scenario.scenario import Scenario
from ..sim.output_analysis.comparison import rank
from ..store.work import Progress
from .factors import MECHANISM, Factor, Levels, Value, read_factor, words_of
from .objective import Aim
from .rows import Swept
from .sweep import Sweep, sweep

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..store.store import Store

_LARGEST = ("throughput_per_s",)


@dataclass(frozen=True)
class Round:
    """One point of the grid: the contenders, by value, and who may be the best of them."""

    levels: Levels
    contenders: dict[Value, Swept]
    perhaps_best: tuple[Value, ...]

    @property
    def words(self) -> str:
        """Its levels in words."""
        return words_of(self.levels)


@dataclass(frozen=True, repr=False)
class Contest:
    """All rounds, and the sweep that they were made of."""

    field: str
    figure: str
    sweep: Sweep
    rounds: tuple[Round, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before one believes it."""
        return self.sweep.warnings

    @property
    def frame(self) -> pd.DataFrame:
        """One row a contender and point, with whether it may be the best there."""
        best = {
            id(swept): value in each.perhaps_best
            for each in self.rounds
            for value, swept in each.contenders.items()
        }
        frame = self.sweep.frame
        frame.insert(
            len(self.sweep.points[0].levels),
            "may_be_best",
            [best[id(point)] for point in self.sweep.points],
        )
        return frame

    def plot(self) -> Figure:
        """Return the picture: a line for each contender."""
        return self.sweep.plot(self.figure)

    def _repr_html_(self) -> str:
        return self.frame.to_html(max_rows=60, max_cols=12)

    def __repr__(self) -> str:
        """Return the answer in short: all of its runs would fill a screen."""
        return f"<Contest at {len(self.rounds)} points: .frame, .plot()>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            **self.sweep.to_dict(),
            "format": "dispatchsim-contest/2",
            "field": self.field,
            "figure": self.figure,
            "rounds": [
                {"levels": each.levels, "may_be_best": list(each.perhaps_best)}
                for each in self.rounds
            ],
        }


def contest(
    scenario: Scenario,
    contenders: Sequence[Value],
    vary: Sequence[Factor | str],
    *,
    field: str = MECHANISM,
    figure: str = LEVEL_METRIC,
    within: float | None = None,
    profile: Profile | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Contest:
    """Return who is best where.

    Parameters
    ----------
    contenders:
        Values of *field*: mechanisms, by default.
    vary:
        The grid over which they meet.
    figure:
        Of a record; the smaller is the better, but for throughput_per_s.
    within, profile, store, executor, progress:
        As for `sweep.sweep`.

    Raises
    ------
    UserError, ScenarioError
        If there are fewer than two contenders, or as `sweep.sweep`.
    """
    known = {metric.name for metric in ASKED_AS.values()}
    if figure not in known:
        raise UserError(
            f"figure: must be one of which is known what is better ({', '.join(sorted(known))}), "
            f"got {figure}"
        )
    if len(set(contenders)) < 2:
        raise UserError(f"{field}: must be at least two to be compared, got {len(set(contenders))}")
    others = [read_factor(each, "vary") if isinstance(each, str) else each for each in vary]
    swept = sweep(
        scenario,
        [*others, Factor(field, tuple(contenders))],
        within=within,
        figure=figure,
        profile=profile,
        store=store,
        executor=executor,
        progress=progress,
    )
    groups: dict[str, list[Swept]] = {}
    for point in swept.points:
        rest = {f: v for f, v in point.levels.items() if f != field}
        groups.setdefault(repr(rest), []).append(point)
    rounds = tuple(_round(members, field, figure) for members in groups.values())
    return Contest(field, figure, swept, rounds)


def _round(members: Sequence[Swept], field: str, figure: str) -> Round:
    contenders = {member.levels[field]: member for member in members}
    levels = {f: v for f, v in members[0].levels.items() if f != field}
    aim = Aim.of(METRICS[figure], largest=figure in _LARGEST, scenario=members[0].scenario)
    # Pairs are of equal seeds: as many as all have.
    n = min(len(member.central) for member in members)
    table = [[aim.value(member.central[k]) for member in members] for k in range(n)]
    if n < 2 and members[0].scenario.is_random:
        return Round(levels, contenders, tuple(contenders))  # of one run each, nobody can tell
    if n < 2:
        best = max(table[0]) if aim.largest else min(table[0])
        equal = [v for v, x in zip(contenders, table[0], strict=True) if x == best]
        return Round(levels, contenders, tuple(equal))
    values = list(contenders)
    order = rank(table, largest=aim.largest).perhaps_best
    return Round(levels, contenders, tuple(values[i] for i in order))
