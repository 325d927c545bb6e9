"""Objectives that a service must meet: "p99 < 50 ms and errors < 0.1%".

A clause is a metric (scenario/metrics.py), < or >, and a bound with its unit. Each percentile is a
metric ("p97.5"). A value at the bound meets it, so <= and ≤ mean the same as <. A response time
starts when its request is due. Percentiles count failed requests as infinite; a metric of replies
received needs a bound on p99 or errors beside it. An aim is a metric to minimise or maximise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..scenario.errors import UserError, unknown_key
from ..scenario.metric import Kind, Metric
from ..scenario.metrics import ASKED_AS
from ..scenario.quantities import DURATION, RATE, SIZE, QuantityError, parse_share, shown
from ..scenario.scenario import Scenario
from ..store.records import Record

_CLAUSE = re.compile(r"\s*([a-z0-9_.]+)\s*(<=|>=|=<|=>|<|>|≤|≥)\s*(.+?)\s*")
_BELOW = "<≤"
_EXAMPLE = "p99 < 50 ms and errors < 0.1%"


class Clause(NamedTuple):
    """One bound; `bound` is in the base unit of its metric: ns, a share, or a rate per second."""

    name: str
    sign: str
    bound: float

    @property
    def figure(self) -> str:
        """The name of the metric in a record."""
        return ASKED_AS[self.name].name

    def is_met(self, value: float) -> bool:
        """Return whether a run with *value* meets the bound; NaN does not."""
        if math.isnan(value):
            return False
        return value <= self.bound if self.sign == "<" else value >= self.bound

    def __str__(self) -> str:
        """Return the clause as users write it."""
        return f"{self.name} {self.sign} {ASKED_AS[self.name].exact(self.bound)}"


class Objective(NamedTuple):
    """Bounds that must all be met."""

    clauses: tuple[Clause, ...]

    def is_met(self, figures: Mapping[str, float]) -> bool:
        """Return whether a run with these metrics meets all bounds."""
        return all(clause.is_met(figures[clause.figure]) for clause in self.clauses)

    def broken_by(self, figures: Mapping[str, float]) -> Clause | None:
        """Return the first bound that is violated."""
        broken = (c for c in self.clauses if not c.is_met(figures[c.figure]))
        return next(broken, None)

    def __str__(self) -> str:
        """Return the objective as users write it."""
        return " and ".join(map(str, self.clauses))


def read_objective(text: str) -> Objective:
    """Return the objective in *text*.

    >>> str(read_objective("p99 < 0.05 s, errors < 0.1%"))
    'p99 < 50 ms and errors < 0.1%'

    Raises
    ------
    UserError
        With the rule that it breaks.
    """
    # No clause begins with a digit: a comma before a digit is part of a number, refused below.
    clauses = [_clause(part) for part in re.split(r",(?![0-9])|\band\b", text)]
    return Objective(tuple(clauses))


def _clause(text: str) -> Clause:
    match = _CLAUSE.fullmatch(text)
    if match is None:
        raise UserError(f"objective: must look like {shown(_EXAMPLE)}, got {shown(text.strip())}")
    name, bound = match[1], match[3]
    sign = "<" if any(each in match[2] for each in _BELOW) else ">"
    metric = _metric(name)
    name, kind = metric.short, metric.kind
    try:
        if kind is Kind.TIME:
            value = float(DURATION.parse(bound))
        elif kind is Kind.RATE:
            value = float(RATE.parse(bound))
        elif kind is Kind.SHARE:
            value = parse_share(bound)
        elif kind is Kind.SIZE:
            value = float(SIZE.parse(bound))
        else:
            value = float(bound)
    except QuantityError as error:
        raise UserError(f"objective: {name}: {error}") from None
    except ValueError:
        raise UserError(f"objective: {name}: must be a number, got {shown(bound)}") from None
    if kind is not Kind.SHARE and value <= 0:
        raise UserError(f"objective: {name}: must be above 0, got {shown(bound)}")
    return Clause(name, sign, value)


def _metric(name: str) -> Metric:
    try:
        if ASKED_AS.has(name):
            return ASKED_AS[name]
    except UserError as error:
        raise UserError(f"objective: {error}") from None
    raise UserError(f"objective: {name}: {unknown_key(name, ASKED_AS)}")


class Aim(NamedTuple):
    """A metric to minimise or maximise; a run without a value gets the *worst*."""

    figure: str
    largest: bool
    worst: float

    @classmethod
    def of(cls, metric: Metric, *, largest: bool, scenario: Scenario) -> Aim:
        """Return the aim for a metric: the worst time is the length of a run, the worst share 1."""
        if largest:
            return cls(metric.name, True, 0.0)
        worst = {Kind.TIME: float(scenario.run.duration), Kind.SHARE: 1.0}
        return cls(metric.name, False, worst.get(metric.kind, math.inf))

    def value(self, record: Record) -> float:
        """Return the metric of a run, at most the worst: an infinite time would have no mean."""
        value = record.figures[self.figure]
        if math.isnan(value):
            return self.worst
        return value if self.largest else min(value, self.worst)
