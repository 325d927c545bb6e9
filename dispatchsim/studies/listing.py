"""The contents of a store, one line per point: the rows chosen, and the fields that differ.

    rows ─► that meet conditions ─► by scenario, profile, code ─► Point ─┬─ estimates
                                                                         └─ fields

The rows of a point differ only in their seed and cost sample. A point has means over seeds with an
interval, and the range over cost samples. Its fields are all keys of the scenario; fields that
differ between points are the columns of a listing.

    "server.mechanism=poll", "load.rate>2000/s", "p99_ns<50 ms"

    FIELD  =  !=  <  <=  >  >=  VALUE
      │                           └─ a text, a number, or a quantity with its unit
      └─ a key of the scenario, a metric, or seed, draw, mechanism, profile, verdict, code
"""

from __future__ import annotations

import contextlib
import functools
import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from ..models.catalogue import named
from ..scenario.errors import ScenarioError, UserError, nearest
from ..scenario.metric import Kind
from ..scenario.metrics import METRICS
from ..scenario.quantities import BANDWIDTH, DURATION, RATE, SIZE, QuantityError, read_number
from ..scenario.scenario import Scenario
from ..sim.figures.summary import Verdict, middle_verdict
from ..store.records import NOT_OF_A_RUN, Record
from .factors import MECHANISM
from .rows import Estimate, estimate

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FORM = re.compile(r"\s*([\w.]+)\s*(!=|<=|>=|=|<|>)\s*(.*?)\s*", re.DOTALL)
_UNITS = {Kind.TIME: DURATION, Kind.RATE: RATE, Kind.SIZE: SIZE}
"""The unit in which a metric may be given; a plain number is allowed, too."""
_NUMBER = "number"


class Point(NamedTuple):
    """One scenario with one profile, and its replications.

    Attributes
    ----------
    fields:
        Its settings, by key as in "load.rate", defaults included; None: absent. `mechanism`,
        `profile` and `code` are among them.
    central, drawn:
        Its rows at central costs, and at cost samples, by seed and sample.
    """

    fields: Mapping[str, str | None]
    central: tuple[Record, ...]
    drawn: tuple[Record, ...]

    @property
    def verdict(self) -> str:
        """The middle one of the verdicts of its replications."""
        return str(middle_verdict(Verdict(row.verdict) for row in self.central or self.drawn))

    def estimate(self, figure: str) -> Estimate:
        """Return mean and intervals of a metric; NaN if a row lacks it."""
        central, drawn = (
            [row.figures.get(figure, float("nan")) for row in rows]
            for rows in (self.central, self.drawn)
        )
        return estimate(central or drawn, drawn, least=0)

    @property
    def has_twins(self) -> bool:
        """Whether two rows have one seed and cost sample, as two profiles have one name."""
        rows = Counter((row.seed, row.draw) for row in (*self.central, *self.drawn))
        return max(rows.values()) > 1


def points_of(records: Sequence[Record]) -> list[Point]:
    """Return the points of *records*, in an order independent of theirs."""
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
    """Return the fields, except the mechanism, that differ between *points*."""
    names = dict.fromkeys(name for point in points for name in point.fields)
    same = {"mechanism", "server.mechanism"}
    return [
        name
        for name in names
        if name not in same and len({point.fields.get(name) for point in points}) > 1
    ]


def fields_of(row: Record) -> dict[str, str | None]:
    """Return the settings of *row* except seed and cost sample, by key as in "load.rate"."""
    own = {"mechanism": row.mechanism, "profile": row.profile, "code": row.code}
    return {**own, **_scenario_fields(row.scenario)}


@functools.lru_cache(maxsize=4096)
def _scenario_fields(text: str) -> dict[str, str | None]:
    content = json.loads(text)
    # A row of an older version may break today's rules: then it is taken as it is.
    with contextlib.suppress(ScenarioError):
        content = Scenario.check(content, "row").model_dump()
    for section, keys in NOT_OF_A_RUN.items():
        for key in keys:
            content.get(section, {}).pop(key, None)
    return dict(_flat(content, ""))


def _flat(content: Any, name: str) -> Iterator[tuple[str, str | None]]:
    """Yield each value in *content* with its place: "load.rate", "fault.1.kind"."""
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


class Condition(NamedTuple):
    """A condition that a field of a row must meet."""

    field: str
    comparison: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Return the condition in *text*.

        Raises
        ------
        UserError
            If it is no condition.
        """
        match = _FORM.fullmatch(text)
        if match is None or not match[3]:
            raise UserError(f"--where: must be FIELD=VALUE or use !=, <, <=, > or >=, got {text!r}")
        field, comparison, value = match.groups()
        is_mechanism = field in {"mechanism", MECHANISM}
        return cls(field, comparison, named(value) if is_mechanism else value)

    def holds(self, row: Record) -> bool:
        """Return whether *row* meets the condition; a row without the field does not.

        Raises
        ------
        UserError
            If the two cannot be compared in this way.
        """
        compare = _COMPARISONS[self.comparison]
        if self.field in row.figures:
            unit = _UNITS.get(METRICS[self.field].kind) if METRICS.has(self.field) else None
            wanted = _magnitudes(self.value)
            value = wanted.get(_NUMBER, wanted.get(unit.name) if unit else None)
            if value is None:
                like = f" or {unit.expected}" if unit else ""
                raise UserError(
                    f"--where: {self.field} must be compared with a number{like}, "
                    f'got "{self.value}"'
                )
            return compare(row.figures[self.field], float(value))
        own = known_fields(row)[self.field]
        if own is None:
            return False
        ours, theirs = _magnitudes(own), _magnitudes(self.value)
        for kind in ours.keys() & theirs.keys():
            return compare(ours[kind], theirs[kind])
        if self.comparison in {"=", "!="}:
            return compare(own, self.value)
        quantity = next((unit for unit in _UNITS.values() if unit.name in ours), None)
        if quantity is not None:
            raise UserError(
                f"--where: {self.field} is a {quantity.name}; compare it with a {quantity.name}, "
                f"such as {self.field}{self.comparison}{quantity.example}, got "
                f'"{self.field}{self.comparison}{self.value}"'
            )
        raise UserError(
            f'--where: {self.field} is "{own}" in a row: compare it with = or !=, got '
            f'"{self.comparison}{self.value}"'
        )


def known_fields(row: Record) -> dict[str, str | None]:
    """Return the fields of *row* that are not metrics."""
    own = {"seed": str(row.seed), "draw": None if row.draw is None else str(row.draw)}
    return {**fields_of(row), **own, "verdict": row.verdict}


def matching(records: Sequence[Record], conditions: Sequence[Condition]) -> list[Record]:
    """Return those of *records* for which all *conditions* hold.

    Raises
    ------
    UserError
        If a field is unknown, or cannot be compared in this way.
    """
    check_fields([condition.field for condition in conditions], records, "--where")
    return [
        row
        for row in records
        if all(each.field in _all_fields(row) and each.holds(row) for each in conditions)
    ]


def check_fields(names: Sequence[str], records: Sequence[Record], option: str) -> None:
    """Refuse *names*, given as *option*, that no row of *records* has.

    Raises
    ------
    UserError
        With the nearest name.
    """
    known = {name for row in records for name in _all_fields(row)} if names else set()
    for name in names:
        if name not in known:
            hint = nearest(name, sorted(known)) or (
                " (keys of the scenario such as load.rate, metrics such as p99_ns; or "
                "seed, draw, mechanism, profile, verdict, code)"
            )
            raise UserError(f'{option}: must name a field that a row has, got "{name}"{hint}')


def _all_fields(row: Record) -> set[str]:
    return {*known_fields(row), *row.figures}


def _magnitudes(text: str) -> dict[str, Fraction]:
    """Return the value of *text*, by each kind of quantity that it may be."""
    found: dict[str, Fraction] = {}
    for unit in (DURATION, SIZE, RATE, BANDWIDTH):
        try:
            found[unit.name] = unit.parse(text)
        except QuantityError:
            continue
    written = read_number(text)
    if written is not None and written.unit in {"", "%"}:
        found[_NUMBER] = Fraction(written.digits) / (100 if written.unit else 1)
        return found
    with contextlib.suppress(ValueError, ZeroDivisionError):
        found[_NUMBER] = Fraction(text.replace("_", ""))  # such as 1e5
    return found
