"""Queues with one server whose answers are known, simulated many at a time.

    gaps between arrivals ─┐
    services ──────────────┼──► Lindley: W ◄── max(0, W + service - gap) ──► waits
    first wait ────────────┘    one row a run, all runs at once

The unit of time is the mean service; arrivals are Poisson with rate rho.

Sources: Kleinrock 1975, "Queueing Systems", volume 1, §5.6 and §8.2 (Pollaczek and Khinchine,
Lindley's recursion); Asmussen 2003, "Applied Probability and Queues", §VIII.5 (the stationary wait
as a geometric sum); Erlang 1909, in Brockmeyer, Halstrøm and Jensen 1948 (quantiles of M/D/1).
"""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Floats = NDArray[np.float64]


class Queue(StrEnum):
    """How long services are: exponential, or all alike."""

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

    Of M/D/1 the terms of Erlang's sum alternate and lose digits: good to eight up to some 15
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
    most = wait_quantile(Queue.M_M_1, rho, q)
    return float(brentq(lambda wait: wait_probability(queue, rho, wait) - q, 0.0, most))


def stationary_wait(queue: Queue, rho: float, runs: int, generator: np.random.Generator) -> Floats:
    """Return what the first customer of each run waits in steady state.

    That is the sum of a geometric number of what is left of services when somebody arrives:
    exponential again, or uniform where all services are alike.
    """
    n = generator.geometric(1 - rho, runs) - 1
    if queue is Queue.M_M_1:
        return generator.gamma(n)
    starts = np.concatenate([[0], np.cumsum(n)])
    sums = np.concatenate([[0.0], np.cumsum(generator.random(int(starts[-1])))])
    waits: Floats = sums[starts[1:]] - sums[starts[:-1]]
    return waits


def services(queue: Queue, shape: tuple[int, int], generator: np.random.Generator) -> Floats:
    """Return the services of customers, a row a run."""
    return np.ones(shape) if queue is Queue.M_D_1 else generator.exponential(size=shape)


def lindley(first: Floats, served: Floats, gaps: Floats) -> Floats:
    """Return the waits of successive customers, a row a run.

    Parameters
    ----------
    first:
        Wait of the first customer of each run.
    served, gaps:
        A row a run: service of each customer, and the time from its arrival to the next; the last
        of both changes nothing.
    """
    walk = np.zeros_like(served)
    np.subtract(served[:, :-1], gaps[:, :-1], out=walk[:, 1:])
    np.cumsum(walk, axis=1, out=walk)
    # Whoever comes at the lowest point so far waits for nobody, unless the first still does.
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
        Which, and its load.
    shape:
        Runs, and customers of each.
    generator:
        What is drawn from.
    empty:
        Whether a run begins with an empty server rather than in steady state.
    """
    first = np.zeros(shape[0]) if empty else stationary_wait(queue, rho, shape[0], generator)
    served = services(queue, shape, generator)
    return lindley(first, served, generator.exponential(1 / rho, shape))
