"""Percentiles of the response time by name: p95_ns, p99_9_ns, p97_5_answered_ns.

    p99.9, p99_9, p999  ──►  Percentile("99.9")  ──►  p99_9_ns in JSON, p99.9 in an objective

Every rank above 0 and below 100 is a metric. Those of `scenario/metrics.py` are in each result.

    ends of intervals, each from its own spread ──► rearranged ──► p50 <= p99 <= p99.9

Source: Chernozhukov, Fernández-Val and Galichon 2010, "Quantile and probability curves without
crossing", Econometrica 78(3) (sorting estimates of quantiles, or the ends of their intervals, moves
them no further from the true ones).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from decimal import Decimal
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


def rearranged(values: Mapping[str, float]) -> dict[str, float]:
    """Return *values* by metric, with those of percentiles sorted: none is below a lower rank's.

    Percentiles of every due request, and of requests with a reply, are sorted separately. NaN stays
    in its place.

    >>> rearranged({"p99_ns": 4.0, "p50_ns": 5.0, "cpu_busy": 0.5})
    {'p99_ns': 5.0, 'p50_ns': 4.0, 'cpu_busy': 0.5}
    """
    found = dict(values)
    known = [(percentile, name) for name in values if (percentile := percentile_of(name))]
    for is_answered in (False, True):
        ranked = sorted(
            (percentile.share, name)
            for percentile, name in known
            if percentile.is_answered == is_answered and not math.isnan(values[name])
        )
        ascending = sorted(values[name] for _, name in ranked)
        found |= {name: value for (_, name), value in zip(ranked, ascending, strict=True)}
    return found


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
