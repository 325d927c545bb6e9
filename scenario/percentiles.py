"""Percentiles of the response time by name: p95_ns, p99_9_ns, p97_5_answered_ns.

    p99.9, p99_9, p999  ──►  Percentile("99.9")  ──►  p99_9_ns in JSON, p99.9 in an objective

Every rank above 0 and below 100 is a metric. Those of `scenario/metrics.py` are in each result.

    intervals, each from its own spread ──► cut where other ranks exclude a part ──► in order

p99 is at least p50, so it is at least the lower end of p50's interval, and p50 is at most the upper
end of p99's.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

from ..sim.figures.summary import Summary
from .errors import UserError
from .metric import Kind, Metric

ANSWERED = "of requests with a reply, from the due time to the reply"
DUE = "of the response time of every due request; a failed request counts as infinite"
_NAME = re.compile(r"p(\d{1,20})(?:[._](\d{1,20}))?(_answered)?(?:_ns)?", re.ASCII)
_AS_PEOPLE_WRITE = {"999": "99.9", "9999": "99.99"}


class Percentile(NamedTuple):
    """A percentile of every due request, or of requests with a reply.

    Attributes
    ----------
    rank:
        In per cent, as a decimal number without trailing zeros: "99.9".
    is_answered:
        Whether only requests with a reply count.
    """

    rank: str
    is_answered: bool

    @property
    def share(self) -> float:
        """The rank as a share: 0.999."""
        return float(Decimal(self.rank) / 100)

    @property
    def name(self) -> str:
        """The name of the metric."""
        return f"p{self.rank.replace('.', '_')}{'_answered' * self.is_answered}_ns"

    @property
    def short(self) -> str:
        """The name in an objective."""
        return f"p{self.rank}{'_answered' * self.is_answered}"


def percentile_of(name: str) -> Percentile | None:
    """Return the percentile called *name*, None if the name is not a percentile's.

    Raises
    ------
    UserError
        If its rank is not above 0 and below 100.

    >>> percentile_of("p99.9").name, percentile_of("p999_ns").short, percentile_of("cpu")
    ('p99_9_ns', 'p99.9', None)
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    whole, behind, answered = match.groups()
    rank = f"{whole}.{behind}" if behind else _AS_PEOPLE_WRITE.get(whole, whole)
    if not 0 < Decimal(rank) < 100:
        raise UserError(f"{name}: a percentile must be above 0 and below 100, got {rank}")
    return Percentile(f"{Decimal(rank).normalize():f}", bool(answered))


@functools.cache
def percentile_metric(known: Percentile) -> Metric:
    """Return the metric that is the percentile *known*."""

    def of(summary: Summary) -> float:
        requests = summary.requests
        if requests is None:
            return float("nan")
        find = requests.latency.quantiles if known.is_answered else requests.quantiles_due_ns
        return find([known.share])[0]

    rank = known.rank
    due = f"response time, {rank}%", f"p{rank}", f"percentile {rank} {DUE}"
    answered = (
        f"excluding failures, {rank}%",
        f"p{rank} of replies",
        f"percentile {rank} of the response time {ANSWERED}",
    )
    words = answered if known.is_answered else due
    return Metric(known.name, Kind.TIME, *words, of, short=known.short)


def ascending(values: Mapping[str, float]) -> dict[str, float]:
    """Return *values* by metric, each percentile raised to the highest value of a lower rank.

    Percentiles of every due request, and of requests with a reply, are separate. NaN stays in its
    place.

    >>> ascending({"p99_ns": 4.0, "p50_ns": 5.0, "cpu_busy": 0.5})
    {'p99_ns': 5.0, 'p50_ns': 5.0, 'cpu_busy': 0.5}
    """
    found = dict(values)
    for ranked in _by_rank(name for name, value in values.items() if not math.isnan(value)):
        for lower, name in pairwise(ranked):
            found[name] = max(found[lower], found[name])
    return found


def ends_in_order(intervals: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return *intervals* by metric, those of percentiles without the part that other ranks exclude.

    A lower end is at least that of each lower rank, an upper end at most that of each higher rank.
    If every interval contains its percentile, so does its remaining part. Where intervals of two
    ranks exclude each other, one of them is wrong: both become the range between them.

    >>> ends_in_order({"p50_ns": (2.0, 5.0), "p99_ns": (1.0, 4.0)})
    {'p50_ns': (2.0, 4.0), 'p99_ns': (2.0, 4.0)}
    >>> ends_in_order({"p50_ns": (5.0, 6.0), "p99_ns": (1.0, 3.0)})
    {'p50_ns': (3.0, 5.0), 'p99_ns': (3.0, 5.0)}
    """
    found = dict(intervals)
    known = (name for name, ends in intervals.items() if not any(map(math.isnan, ends)))
    for ranked in _by_rank(known):
        low = ascending({name: intervals[name][0] for name in ranked})
        high = {name: intervals[name][1] for name in ranked}
        for higher, name in pairwise(reversed(ranked)):
            high[name] = min(high[name], high[higher])
        for name in ranked:
            first, last = sorted((low[name], high[name]))
            found[name] = first, last
    return found


def _by_rank(names: Iterable[str]) -> list[list[str]]:
    """Return the percentiles in *names* from the lowest rank up: of all requests, of replies."""
    known = [(percentile, name) for name in names if (percentile := percentile_of(name))]
    return [
        [name for _, name in sorted((p.share, name) for p, name in known if p.is_answered == kind)]
        for kind in (False, True)
    ]


class Metrics(dict[str, Metric]):
    """Metrics by name, or by their short name; every percentile is made on demand."""

    def __missing__(self, name: str) -> Metric:
        """Return the percentile *name*.

        Raises
        ------
        KeyError
            If it is none.
        UserError
            If its rank is not above 0 and below 100.
        """
        known = percentile_of(name)
        if known is None:
            raise KeyError(name)
        return self.get(known.name) or self.get(known.short) or percentile_metric(known)

    def has(self, name: str) -> bool:
        """Return whether there is a metric *name*; percentiles of every rank count.

        Raises
        ------
        UserError
            If it is a percentile whose rank is not above 0 and below 100.
        """
        return name in self or percentile_of(name) is not None
