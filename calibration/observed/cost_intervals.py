"""How precisely runs determine the costs of a request and a connection, and which run to add.

    time of a reply = the machine's costs + request_ns + connection_ns / requests a connection

    repeats ──► scatter, in one for all kinds of runs ──┬─► least squares ──► 95% intervals
    kinds of runs, how many of each ────────────────────┘
    the same with one more run ─────────────────────────────────────────────►narrower by

Two repeats hardly show how far repeats scatter. So the scatter, relative to the mean, is pooled
over all kinds of runs. It starts from the scatter of other runs (EXPECTED), which counts as much
as EXPECTED_DEGREES runs. The intervals hold for fixed costs of the machine.

Sources: Gelman and others 2013, "Bayesian Data Analysis", §3.3 (normal data, conjugate prior);
Draper and Smith 1998, "Applied Regression Analysis", §5.1 (least squares in matrices); Dixon and
Massey 1957, "Introduction to Statistical Analysis", §9 (efficiency of medians).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.output_analysis.interval import two_sided_t

EXPECTED = 0.025
EXPECTED_DEGREES = 4
"""Repeats of a closed loop scatter by 1.9% in the median, and one point in ten by more than 4.8%:
57 points, with three repeats or more, of calibration/measured/epyc-family26-2cpu-linux-6.18. These
two constants describe such a distribution."""
_EFFICIENCY = (1.0, 1.0, 0.743, 0.838, 0.697, 0.776, 0.679, 0.743, 0.669, 0.723)
"""For the median of 1, 2, ... normal values: the variance of their mean over its own."""
_OF_MANY = 2 / math.pi


class Scatter(NamedTuple):
    """The scatter of repeats relative to their mean, and how well it is known.

    Attributes
    ----------
    relative:
        The coefficient of variation.
    n_repeats:
        Degrees of freedom from runs; 0: only the expected scatter is used.
    """

    relative: float
    n_repeats: int

    @property
    def reach(self) -> float:
        """The half width of a 95% interval, for a standard error of 1 at a scatter of 1."""
        return self.relative * two_sided_t(0.95, EXPECTED_DEGREES + self.n_repeats)


class Kind(NamedTuple):
    """Runs that are alike: requests a connection, time of a reply, number of runs."""

    requests: int
    reply_ns: float
    n_runs: int

    @property
    def relative_error(self) -> float:
        """The standard error of the median of the runs, for a scatter of 1."""
        n = self.n_runs
        efficiency = _EFFICIENCY[n - 1] if n <= len(_EFFICIENCY) else _OF_MANY
        return 1 / math.sqrt(n * efficiency)


class HalfWidths(NamedTuple):
    """Of the 95% intervals; `connection_ns` is infinite if no run separates it from requests."""

    request_ns: float
    connection_ns: float


class NextRun(NamedTuple):
    """A further run, and the intervals before and after it."""

    requests: int
    before: HalfWidths
    after: HalfWidths

    @property
    def shrinks_ns(self) -> float:
        """How much both half widths together shrink."""
        return sum(self.before) - sum(self.after)


def scatter_of(groups: Iterable[Sequence[float]]) -> Scatter:
    """Return the scatter within *groups* of repeats, assumed equal in all groups.

    >>> round(scatter_of([[100.0, 110.0], [50.0, 49.0], [7.0]]).relative, 4)
    0.0347
    """
    squares, n_repeats = EXPECTED_DEGREES * EXPECTED**2, 0
    for group in groups:
        values = np.array(group) / np.mean(group)
        squares += float(((values - 1) ** 2).sum())
        n_repeats += values.size - 1
    return Scatter(math.sqrt(squares / (EXPECTED_DEGREES + n_repeats)), n_repeats)


def half_widths(kinds: Sequence[Kind], scatter: Scatter) -> HalfWidths:
    """Return the half widths of the intervals of both costs, given *kinds* of runs.

    If all kinds have the same number of requests a connection, requests take the whole time.
    """
    reach = scatter.reach
    rows = _rows(kinds)
    if len({kind.requests for kind in kinds}) == 1:
        return HalfWidths(reach / math.sqrt(float((rows[:, 0] ** 2).sum())), math.inf)
    covariance = np.linalg.inv(rows.T @ rows)
    request, connection = np.sqrt(np.diag(covariance))
    return HalfWidths(reach * float(request), reach * float(connection))


def next_run(
    kinds: Sequence[Kind], scatter: Scatter, others: Mapping[int, float] | None = None
) -> NextRun:
    """Return the run that narrows both intervals most.

    Parameters
    ----------
    kinds:
        The kinds of the existing runs.
    others:
        Expected times of a reply, in ns, at other numbers of requests a connection.
    """
    before = half_widths(kinds, scatter)
    found = []
    for index, kind in enumerate(kinds):
        more = [*kinds[:index], kind._replace(n_runs=kind.n_runs + 1), *kinds[index + 1 :]]
        known = scatter._replace(n_repeats=scatter.n_repeats + 1)
        found.append(NextRun(kind.requests, before, half_widths(more, known)))
    for requests, reply_ns in (others or {}).items():
        more = [*kinds, Kind(requests, reply_ns, 1)]
        found.append(NextRun(requests, before, half_widths(more, scatter)))
    return max(found, key=_tells)


def _tells(run: NextRun) -> tuple[bool, float]:
    """Return the rank of a run: first whether it separates the costs, then how much it helps."""
    apart = math.isinf(run.before.connection_ns) and math.isfinite(run.after.connection_ns)
    if math.isfinite(run.before.connection_ns):
        return apart, run.shrinks_ns
    return apart, run.before.request_ns - run.after.request_ns


def _rows(kinds: Sequence[Kind]) -> NDArray[np.float64]:
    """Return a row for each kind: what a ns of each cost adds, in standard errors at scatter 1."""
    scales = [kind.reply_ns * kind.relative_error for kind in kinds]
    return np.array(
        [(1 / scale, 1 / (k.requests * scale)) for k, scale in zip(kinds, scales, strict=True)]
    )
