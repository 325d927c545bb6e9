"""Lesson 2: the cost of thousands of silent connections for a scan and for a ready list.

    idle connections ──► poll: checks each at every call ──► latency, CPU
                    └──► epoll: returns only the ready ones

Sources: Banga and Mogul 1998, §2; Gammo et al. 2004, §2; Chandra and Mosberger 2001, §4.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..scenario.scenario import Scenario
from .exercises import HiddenAnswer, answer
from .experiments import Experiment, cases_over, experiment, open_loop, scenario, times

IDLE = (0, 250, 1_000, 3_000, 6_000)
SCANNING, TOLD = "poll", "epoll_level"


def idle_connections(
    rate_per_s: float = 5_000,
    *,
    idle: Sequence[int] = IDLE,
    mechanisms: Sequence[str] = (SCANNING, TOLD),
    accept_limit: int = 0,
) -> Experiment:
    """Return latency, CPU and events per wait by the number of idle connections.

    Parameters
    ----------
    rate_per_s:
        Connections offered by the others, one request each.
    idle:
        Numbers of connections that are open and silent.
    mechanisms:
        Mechanisms of the servers.
    accept_limit:
        Accepts for one notification; 0: until none is left.
    """

    def asked(mechanism: str, n: int) -> Scenario:
        return scenario(
            server={"mechanism": mechanism, "accept_limit": accept_limit},
            load=open_loop(rate_per_s),
            idle={"connections": n},
        )

    cases = cases_over({name: name for name in mechanisms}, idle, asked)
    figures = ["latency_p50_us", "cpu_busy_percent", "events_per_wait", "answered_per_s"]
    return experiment(
        f"{rate_per_s:,.0f} connections per second", cases, figures=figures, axis="idle connections"
    )


def growth(of: Experiment, mechanism: str) -> float:
    """Return the median latency with most idle connections over that with fewest.

    >>> of = idle_connections(1000, idle=(0, 100), mechanisms=["epoll_level"])
    >>> growth(of, "epoll_level") < 1.1
    True
    """
    first, last = of.places[0], of.places[-1]
    return times(
        of.value("latency_p50_us", mechanism, last), of.value("latency_p50_us", mechanism, first)
    )


def answer_at_higher_rate(slow: Experiment) -> HiddenAnswer:
    """Return the answer to "How do difference and ratio change at three times the rate?".

    Parameters
    ----------
    slow:
        From `idle_connections`, at 5,000 connections per second.
    """
    fast = idle_connections(15_000, idle=(0, 3_000))
    (scan, told), (scan_fast, told_fast) = (
        [of.value("latency_p50_us", name, 3_000) for name in (SCANNING, TOLD)]
        for of in (slow, fast)
    )
    return answer(
        "With 3,000 idle connections the difference is {gap} µs at 5,000/s and {gap_fast} µs at "
        "15,000/s. The ratio is {ratio} at 5,000/s and {ratio_fast} at 15,000/s: at three times "
        "the rate poll's clients wait {scan_times} times as long, and epoll's {told_times} times. "
        "A scan takes as long as before, but more events share it ({few} per wait before, {many} "
        "now). epoll's clients begin to queue for the CPU. A claim that one of two mechanisms "
        "gains must name the measure: the difference or the ratio.",
        shows=fast,
        gap=scan - told,
        gap_fast=scan_fast - told_fast,
        ratio=times(scan, told),
        ratio_fast=times(scan_fast, told_fast),
        scan_times=times(scan_fast, scan),
        told_times=times(told_fast, told),
        few=slow.value("events_per_wait", SCANNING, 3_000),
        many=fast.value("events_per_wait", SCANNING, 3_000),
    )


def answer_with_one_accept() -> HiddenAnswer:
    """Return the answer to "What if poll's server accepts one connection per call?"."""
    one = idle_connections(idle=(0, 6_000), mechanisms=(SCANNING,), accept_limit=1)
    return answer(
        "With 6,000 idle connections the server serves {replies} of 5,000 requests per second. "
        "Each scan of 6,000 descriptors now accepts a single client: nothing is shared, and the "
        "server is as slow as the naive formula predicts. Batching kept it up before (lesson 4).",
        shows=one,
        replies=one.value("answered_per_s", SCANNING, 6_000),
    )
