"""Points of a study: rows that differ in nothing but their seed and their draw of the costs.

rows ─► by scenario, profile, code ─► Point ─┬─ estimates     mean ± over seeds, range of draws
                                             └─ fields        every key of the scenario
points ─► differing ─► what one point has and another has not: the columns of a listing
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..running.estimates import Estimate, estimate
from ..scenario.errors import ScenarioError
from ..scenario.scenario import Scenario
from ..sim.figures.metrics import Verdict, middle_verdict
from .records import NOT_OF_A_RUN, Record


class Point(NamedTuple):
    """One scenario with one profile, and its replications.

    Attributes
    ----------
    fields:
        What decided it, by key as in "load.rate", defaults included; None: absent. `mechanism`,
        `profile` and `code` are among them.
    central, drawn:
        Its rows at central costs, and at drawn ones, by seed and draw.
    """

    fields: Mapping[str, str | None]
    central: tuple[Record, ...]
    drawn: tuple[Record, ...]

    @property
    def verdict(self) -> str:
        """That of the middle one of its replications."""
        return str(middle_verdict(Verdict(row.verdict) for row in self.central or self.drawn))

    def estimate(self, figure: str) -> Estimate:
        """Return mean and intervals of *figure*; NaN where a row does not have it."""
        central, drawn = (
            [row.figures.get(figure, float("nan")) for row in rows]
            for rows in (self.central, self.drawn)
        )
        return estimate(central or drawn, drawn, least=0)

    @property
    def has_twins(self) -> bool:
        """Whether some seed and draw are there twice: of two profiles of one name."""
        rows = Counter((row.seed, row.draw) for row in (*self.central, *self.drawn))
        return max(rows.values()) > 1


def points_of(records: Sequence[Record]) -> list[Point]:
    """Return the points that *records* belong to, in an order that does not depend on theirs."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for row in sorted(records, key=lambda row: (row.seed, row.draw or 0, row.address)):
        groups.setdefault((row.scenario, row.profile, row.code), []).append(row)
    return [
        Point(
            fields_of(rows[0]),
            tuple(row for row in rows if row.draw is None),
            tuple(row for row in rows if row.draw is not None),
        )
        for _, rows in sorted(groups.items())
    ]


def differing(points: Sequence[Point]) -> list[str]:
    """Return the fields, but for the mechanism, in which some of *points* differ."""
    names = dict.fromkeys(name for point in points for name in point.fields)
    same = {"mechanism", "server.mechanism"}
    return [
        name
        for name in names
        if name not in same and len({point.fields.get(name) for point in points}) > 1
    ]


def fields_of(row: Record) -> dict[str, str | None]:
    """Return what decided *row* but its seed and draw, by key as in "load.rate"."""
    own = {"mechanism": row.mechanism, "profile": row.profile, "code": row.code}
    return {**own, **_scenario_fields(row.scenario)}


@functools.lru_cache(maxsize=4096)
def _scenario_fields(text: str) -> dict[str, str | None]:
    content = json.loads(text)
    # A row of a version that had other rules: what it says for itself is all that is known.
    with contextlib.suppress(ScenarioError):
        content = Scenario.check(content, "row").model_dump()
    for section, keys in NOT_OF_A_RUN.items():
        for key in keys:
            content.get(section, {}).pop(key, None)
    return dict(_flat(content, ""))


def _flat(content: Any, name: str) -> Iterator[tuple[str, str | None]]:
    """Yield what is in *content* by its place: "load.rate", "fault.1.kind"."""
    if isinstance(content, dict):
        items = list(content.items())
    elif isinstance(content, list | tuple):
        items = [(str(number), each) for number, each in enumerate(content, start=1)]
    else:
        text = str(content).lower() if isinstance(content, bool) else str(content)
        yield name, None if content is None else text
        return
    for key, each in items:
        yield from _flat(each, f"{name}.{key}" if name else key)
