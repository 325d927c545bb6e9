"""The coverage of every interval procedure, on queues with known results.

    dispatchsim lab coverage [--experiments N] [--seed S]

    queue with known mean and quantiles ──► one experiment ──► interval ──► holds them, or not
                                            │ N times                        │
                                            └────────────────────────────────┴──► coverage

    gaps between arrivals ─┐
    services ──────────────┼──► Lindley: W ◄── max(0, W + service - gap) ──► waits
    first wait ────────────┘    one row a run, all runs at once

Queues have one server; the unit of time is the mean service; arrivals are Poisson with rate rho.

Prints a row for each case: the coverage over N experiments (default 2,000; some four minutes), with
its binomial interval. The cases of `HOLDS` are long enough for theory to apply; those of `FAILS`
are not, and show the loss of coverage.

The relaxation time of a queue is of the order of 1/(1 - √rho)² customers: 12 at load 0.5 and 90 at
0.8. With a hundred relaxation times in each of ten replications, or some thousands in one run, a
mean of exponential services is about normal.

Sources: Kleinrock 1975, "Queueing Systems", volume 1, §5.6 and §8.2 (Pollaczek and Khinchine,
Lindley's recursion); Asmussen 2003, "Applied Probability and Queues", §VIII.5 (the stationary wait
as a geometric sum); Erlang 1909, in Brockmeyer, Halstrøm and Jensen 1948 (quantiles of M/D/1); Law
1977, "Confidence intervals in discrete event simulation: a comparison of replication and batch
means", Naval Research Logistics Quarterly 24(4) (coverage on M/M/1); Cohen 1982, "The Single Server
Queue" (relaxation time).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binomtest

from ...sim.load.streams import generator
from ...sim.output_analysis.comparison import paired_difference, rank
from ...sim.output_analysis.interval import batch_means_interval, mean_interval
from ...sim.output_analysis.quantiles import (
    quantile_of_independent,
    quantile_over_replications,
    quantile_sectioned,
)
from ...sim.output_analysis.sequential import Answer, Selection, SequentialMean
from ...sim.output_analysis.steady_state import drift

Floats = NDArray[np.float64]


class Queue(StrEnum):
    """The distribution of service times: exponential, or constant."""

    M_M_1 = "M/M/1"
    M_D_1 = "M/D/1"


def mean_wait(queue: Queue, rho: float) -> float:
    """Return the mean wait before service in steady state, in mean services.

    >>> mean_wait(Queue.M_M_1, 0.5), mean_wait(Queue.M_D_1, 0.5)
    (1.0, 0.5)
    """
    wait = rho / (1 - rho)
    return wait if queue is Queue.M_M_1 else wait / 2


def wait_probability(queue: Queue, rho: float, wait: float) -> float:
    """Return the probability in steady state to wait at most *wait*.

    For M/D/1 the terms of Erlang's sum alternate and lose digits: eight digits remain up to some 15
    mean services.

    >>> wait_probability(Queue.M_D_1, 0.75, 0.0)
    0.25
    """
    if queue is Queue.M_M_1:
        return 1 - rho * math.exp(-(1 - rho) * wait)
    ahead = [rho * (k - wait) for k in range(math.floor(wait) + 1)]
    return (1 - rho) * math.fsum(
        x**k / math.factorial(k) * math.exp(-x) for k, x in enumerate(ahead)
    )


def wait_quantile(queue: Queue, rho: float, q: float) -> float:
    """Return the quantile of the wait at *q* in steady state, in mean services.

    >>> round(wait_quantile(Queue.M_M_1, 0.5, 0.9), 3)
    3.219
    """
    if q <= 1 - rho:
        return 0.0
    if queue is Queue.M_M_1:
        return math.log(rho / (1 - q)) / (1 - rho)
    most = mean_wait(queue, rho)
    while wait_probability(queue, rho, most) < q:  # not much beyond it, where digits are lost
        most *= 1.5
    return float(brentq(lambda wait: wait_probability(queue, rho, wait) - q, 0.0, most))


def stationary_wait(queue: Queue, rho: float, runs: int, generator: np.random.Generator) -> Floats:
    """Return the wait of the first customer of each run in steady state.

    It is the sum of a geometric number of residual service times: exponential again, or uniform for
    constant services.
    """
    n = generator.geometric(1 - rho, runs) - 1
    if queue is Queue.M_M_1:
        return generator.gamma(n)
    starts = np.concatenate([[0], np.cumsum(n)])
    sums = np.concatenate([[0.0], np.cumsum(generator.random(int(starts[-1])))])
    waits: Floats = sums[starts[1:]] - sums[starts[:-1]]
    return waits


def services(queue: Queue, shape: tuple[int, int], generator: np.random.Generator) -> Floats:
    """Return the service times of customers, one row for each run."""
    return np.ones(shape) if queue is Queue.M_D_1 else generator.exponential(size=shape)


def lindley(first: Floats, served: Floats, gaps: Floats) -> Floats:
    """Return the waits of successive customers, one row for each run.

    Parameters
    ----------
    first:
        Wait of the first customer of each run.
    served, gaps:
        One row for each run: service of each customer, and time from its arrival to the next. The
        last value of both has no effect.
    """
    walk = np.zeros_like(served)
    np.subtract(served[:, :-1], gaps[:, :-1], out=walk[:, 1:])
    np.cumsum(walk, axis=1, out=walk)
    # A customer at the lowest point so far does not wait, unless the first one still does.
    lowest = np.minimum.accumulate(walk, axis=1)
    np.minimum(lowest, -first[:, None], out=lowest)
    walk -= lowest
    walk[:, 0] = first
    return walk


def waits(
    queue: Queue,
    rho: float,
    shape: tuple[int, int],
    generator: np.random.Generator,
    *,
    empty: bool = False,
) -> Floats:
    """Return the waits of successive customers of independent runs, in mean services.

    Parameters
    ----------
    queue, rho:
        The queue and its load.
    shape:
        Number of runs, and of customers in each.
    generator:
        The source of random numbers.
    empty:
        Whether a run begins with an empty server rather than in steady state.
    """
    first = np.zeros(shape[0]) if empty else stationary_wait(queue, rho, shape[0], generator)
    served = services(queue, shape, generator)
    return lindley(first, served, generator.exponential(1 / rho, shape))


LEVEL = 0.95
FASTER = 0.9
"""Service time of the second system of a pair, as a share of that of the first."""
RELATIVE = 0.05
"""The target error of the sequential procedure."""
BUDGET = 5_000
ZONE = 0.1
"""Indifference zone of the selection, as a share of the mean wait."""
SYSTEMS = 5
"""The number of systems to rank, and to select from."""


class Procedure(StrEnum):
    """A procedure that makes an interval or a statement."""

    MEAN = "mean, t over replications"
    BATCH_MEANS = "mean, overlapping batch means"
    SEQUENTIAL = "mean, sequential to 5%"
    QUANTILES = "quantile, t over replications"
    SECTIONED = "quantile, sectioned"
    INDEPENDENT = "quantile, order statistics"
    PAIRED = "difference, common numbers"
    DRIFT = "no drift in steady state"
    RANKING = "no false rank, 5 alike"
    SELECTION = "best of 5 is selected (KN)"


class Case(NamedTuple):
    """One row of the table: a procedure, and its data in each experiment.

    `length` is in customers per run. A sequential procedure starts with `replications` and adds
    more. `q` is the quantile, if any. Runs begin in steady state unless `empty`.
    """

    procedure: Procedure
    queue: Queue
    rho: float
    length: int
    replications: int = 1
    q: float = 0.0
    empty: bool = False

    def waits(self, rng: np.random.Generator, n: int = 0) -> Floats:
        """Return the waits of *n* runs, by default of all replications; one row for each run."""
        shape = (n or self.replications, self.length)
        return waits(self.queue, self.rho, shape, rng, empty=self.empty)

    @property
    def truth(self) -> float:
        """Return the mean wait, or its quantile."""
        if self.q > 0:
            return wait_quantile(self.queue, self.rho, self.q)
        return mean_wait(self.queue, self.rho)


class Measured(NamedTuple):
    """The number of experiments of a case whose interval held the true value."""

    case: Case
    hits: int
    experiments: int

    @property
    def share(self) -> float:
        """Return the share of experiments that held."""
        return self.hits / self.experiments

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95% interval of that share (Clopper and Pearson)."""
        bounds = binomtest(self.hits, self.experiments).proportion_ci(0.95)
        return float(bounds.low), float(bounds.high)


def measure(case: Case, experiments: int, seed: int = 1) -> Measured:
    """Return how often a case holds; its random numbers depend on the case and *seed* only."""
    rng = generator(seed, repr(case))
    hits = sum(_EXPERIMENTS[case.procedure](case, rng) for _ in range(experiments))
    return Measured(case, hits, experiments)


def _mean(case: Case, rng: np.random.Generator) -> bool:
    return mean_interval(case.waits(rng).mean(axis=1), level=LEVEL).holds(case.truth)


def _batch_means(case: Case, rng: np.random.Generator) -> bool:
    return batch_means_interval(case.waits(rng)[0], level=LEVEL).holds(case.truth)


def _sequential(case: Case, rng: np.random.Generator) -> bool:
    mean = SequentialMean(relative=RELATIVE, budget=BUDGET, n_first=case.replications, level=LEVEL)
    progress = mean.add()
    while progress.answer is Answer.GO_ON:
        progress = mean.add(case.waits(rng, progress.n_more).mean(axis=1))
    if progress.interval is None or progress.answer is not Answer.REACHED:
        return False
    return progress.interval.holds(case.truth)


def _quantiles(case: Case, rng: np.random.Generator) -> bool:
    return quantile_over_replications(list(case.waits(rng)), case.q, level=LEVEL).holds(case.truth)


def _sectioned(case: Case, rng: np.random.Generator) -> bool:
    return quantile_sectioned(list(case.waits(rng)), case.q, level=LEVEL).holds(case.truth)


def _independent(case: Case, rng: np.random.Generator) -> bool:
    return quantile_of_independent(case.waits(rng)[:, 0], case.q, level=LEVEL).holds(case.truth)


def _paired(case: Case, rng: np.random.Generator) -> bool:
    first, second = paired_means(case, rng)
    # Shorter services by a factor: time is scaled, and the load is lower.
    truth = case.truth - FASTER * mean_wait(case.queue, FASTER * case.rho)
    return paired_difference(first, second, level=LEVEL).difference.holds(truth)


def paired_means(case: Case, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the mean waits of a queue, and of one with shorter services, by replication."""
    shape = (case.replications, case.length)
    seed = int(rng.integers(2**62))
    served, gaps = services(case.queue, shape, rng), rng.exponential(1 / case.rho, shape)
    means = []
    for scale in (1.0, FASTER):
        # The first waits use the same random numbers, too.
        first = stationary_wait(
            case.queue, scale * case.rho, case.replications, np.random.default_rng(seed)
        )
        means.append(lindley(scale * first, scale * served, gaps).mean(axis=1))
    return means[0], means[1]


def _drift(case: Case, rng: np.random.Generator) -> bool:
    return drift(case.waits(rng)[0], 1.0, level=LEVEL).holds(0.0)


def _ranking(case: Case, rng: np.random.Generator) -> bool:
    table = case.waits(rng, SYSTEMS * case.replications).mean(axis=1).reshape(-1, SYSTEMS)
    return len(rank(table, largest=False, level=LEVEL).perhaps_best) == SYSTEMS


def _selection(case: Case, rng: np.random.Generator) -> bool:
    zone = ZONE * case.truth
    rho_best = float(
        brentq(lambda rho: case.truth - zone - mean_wait(case.queue, rho), 0.0, case.rho)
    )
    best = SYSTEMS - 1
    selection = Selection(SYSTEMS, zone, largest=False, n_first=case.replications, level=LEVEL)
    while selection.best is None:
        n = len(selection.staying)
        means = case.waits(rng, n).mean(axis=1)
        if best in selection.staying:
            means[-1] = case._replace(rho=rho_best).waits(rng, 1).mean()
        selection.feed(means)
    return selection.best == best


_EXPERIMENTS: dict[Procedure, Callable[[Case, np.random.Generator], bool]] = {
    Procedure.MEAN: _mean,
    Procedure.BATCH_MEANS: _batch_means,
    Procedure.SEQUENTIAL: _sequential,
    Procedure.QUANTILES: _quantiles,
    Procedure.SECTIONED: _sectioned,
    Procedure.INDEPENDENT: _independent,
    Procedure.PAIRED: _paired,
    Procedure.DRIFT: _drift,
    Procedure.RANKING: _ranking,
    Procedure.SELECTION: _selection,
}

HOLDS = (
    Case(Procedure.MEAN, Queue.M_M_1, 0.5, 2_000, 10),
    Case(Procedure.MEAN, Queue.M_M_1, 0.8, 10_000, 10),
    Case(Procedure.MEAN, Queue.M_D_1, 0.5, 1_000, 10),
    Case(Procedure.MEAN, Queue.M_D_1, 0.8, 5_000, 10),
    Case(Procedure.BATCH_MEANS, Queue.M_M_1, 0.5, 50_000),
    Case(Procedure.BATCH_MEANS, Queue.M_M_1, 0.7, 100_000),
    Case(Procedure.BATCH_MEANS, Queue.M_M_1, 0.8, 200_000),
    Case(Procedure.BATCH_MEANS, Queue.M_D_1, 0.5, 20_000),
    Case(Procedure.BATCH_MEANS, Queue.M_D_1, 0.8, 50_000),
    Case(Procedure.SEQUENTIAL, Queue.M_M_1, 0.5, 200, 50),
    Case(Procedure.SEQUENTIAL, Queue.M_D_1, 0.8, 250, 50),
    Case(Procedure.QUANTILES, Queue.M_M_1, 0.5, 5_000, 10, 0.9),
    Case(Procedure.QUANTILES, Queue.M_D_1, 0.5, 10_000, 10, 0.99),
    Case(Procedure.SECTIONED, Queue.M_M_1, 0.5, 5_000, 10, 0.9),
    Case(Procedure.SECTIONED, Queue.M_D_1, 0.5, 10_000, 10, 0.99),
    Case(Procedure.SECTIONED, Queue.M_D_1, 0.8, 5_000, 10, 0.9),
    Case(Procedure.INDEPENDENT, Queue.M_M_1, 0.8, 1, 1_000, 0.9),
    Case(Procedure.INDEPENDENT, Queue.M_D_1, 0.8, 1, 2_000, 0.99),
    Case(Procedure.PAIRED, Queue.M_M_1, 0.5, 2_000, 10),
    Case(Procedure.PAIRED, Queue.M_D_1, 0.8, 5_000, 10),
    Case(Procedure.DRIFT, Queue.M_M_1, 0.5, 20_000),
    Case(Procedure.DRIFT, Queue.M_D_1, 0.8, 20_000),
    Case(Procedure.RANKING, Queue.M_M_1, 0.5, 1_000, 10),
    Case(Procedure.SELECTION, Queue.M_M_1, 0.5, 1_000, 10),
)
"""Cases in which theory guarantees the nominal coverage."""

FAILS = (
    Case(Procedure.MEAN, Queue.M_M_1, 0.8, 100, 10),
    Case(Procedure.MEAN, Queue.M_M_1, 0.8, 1_000, 10, empty=True),
    Case(Procedure.MEAN, Queue.M_M_1, 0.8, 500, 50, empty=True),
    Case(Procedure.BATCH_MEANS, Queue.M_M_1, 0.5, 1_000),
    Case(Procedure.BATCH_MEANS, Queue.M_M_1, 0.8, 1_000),
    Case(Procedure.BATCH_MEANS, Queue.M_M_1, 0.9, 5_000),
    Case(Procedure.SEQUENTIAL, Queue.M_M_1, 0.5, 2_000, 3),
    Case(Procedure.QUANTILES, Queue.M_M_1, 0.8, 1_000, 10, 0.99),
    Case(Procedure.QUANTILES, Queue.M_M_1, 0.8, 1_000, 50, 0.99),
    Case(Procedure.SECTIONED, Queue.M_M_1, 0.8, 1_000, 10, 0.99),
    Case(Procedure.DRIFT, Queue.M_M_1, 0.9, 1_000),
)
"""Cases that are too short, begin empty or stop too early; coverage is below nominal."""


def row(measured: Measured) -> str:
    """Return one row of the table."""
    case, (low, high) = measured.case, measured.interval
    return (
        f"{case.procedure:<30} {case.queue} {case.rho:>4} {case.q or '':>5} "
        f"{'empty' if case.empty else 'steady':>6} {case.length:>8,} {case.replications:>5,} "
        f"{measured.experiments:>6,} {LEVEL:>7.1%} {measured.share:>8.1%}  {low:.1%}..{high:.1%}"
    )


def coverage_lines(experiments: int, seed: int) -> Iterator[str]:
    """Yield the lines of the table of all cases, each over the given number of experiments."""
    yield f"{experiments} experiments per case, seed {seed}"
    yield (
        f"{'procedure':<30} queue  rho     q  start customers  runs  exper. nominal measured"
        "  95% interval"
    )
    for title, cases in (("long enough", HOLDS), ("not long enough", FAILS)):
        yield f"-- {title}"
        for case in cases:
            yield row(measure(case, experiments, seed))
