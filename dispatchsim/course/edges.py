"""Lesson 6: notification of states or of changes, and clients that a forgetful server strands.

    level   "there is data"       notified again while there is
    edge    "new data arrived"    notified once: continue until a call would block, or remember

    two connect at once ─► one notification ─► accept one ─► wait ... the second stays in the queue
                                                              for ever, and later ones behind it

Sources: epoll(7), "Level-triggered and edge-triggered", "Possible pitfalls"; Gammo et al. 2004,
§3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from ..scenario.scenario import Scenario
from .exercises import HiddenAnswer, answer
from .experiments import (
    Case,
    Experiment,
    cases_over,
    experiment,
    open_loop,
    scenario,
    summaries,
    times,
)

RATES_PER_S = (50, 200, 1_000, 3_000)
LEVEL, EDGE, FORGETFUL = "level, one accept", "edge, drains", "edge, one accept"
_TESTS = 40
"""Enough tests to distinguish a fault that is rarely found from one that never is."""
PROFILE = "epyc-family25-2cpu-linux-6.18"
_SERVERS: dict[str, dict[str, Any]] = {
    LEVEL: {"mechanism": "epoll_level", "accept_limit": 1},
    EDGE: {"mechanism": "epoll_edge"},
    FORGETFUL: {"mechanism": "epoll_edge", "accept_limit": 1, "remembers": False},
}


def loads(rates_per_s: Sequence[float] = RATES_PER_S) -> Experiment:
    """Return latency and stranded connections by load: three servers on epoll.

    Parameters
    ----------
    rates_per_s:
        Connections offered, one request each.
    """
    return experiment(
        "Servers on epoll",
        cases_over(_SERVERS, rates_per_s, lambda server, rate: _scenario(server, rate, "500 ms")),
        figures=["stranded", "latency_p50_us", "cpu_busy_percent"],
        axis="connections offered per second",
        series="server",
        is_log=True,
    )


def lengths(
    seconds: Sequence[float] = (0.25, 0.5, 1, 2), *, rate_per_s: float = 1_000
) -> Experiment:
    """Return latency and stranded connections by the length of the run.

    Parameters
    ----------
    seconds:
        Lengths in simulated time.
    rate_per_s:
        Connections offered, one request each.
    """

    def asked(server: dict[str, Any], length_s: float) -> Scenario:
        return _scenario(server, rate_per_s, f"{length_s} s")

    return experiment(
        f"Servers on epoll, {rate_per_s:,.0f} connections per second",
        cases_over(_SERVERS, seconds, asked),
        figures=["stranded", "latency_p50_us"],
        axis="length of the run (s)",
        series="server",
    )


def to_watch(rate_per_s: float = 3_000) -> Scenario:
    """Return the forgetful server, to watch its accept queue with `ds.record`."""
    return _scenario(_SERVERS[FORGETFUL], rate_per_s, "500 ms")


def _scenario(server: dict[str, Any], rate_per_s: float, duration: str, **run: Any) -> Scenario:
    return scenario(
        server=server,
        load=open_loop(rate_per_s),
        machine={"profile": PROFILE},
        run={"duration": duration, **run},
    )


def stranded_by_run(rate_per_s: float, runs: int = _TESTS) -> list[int]:
    """Return the number of clients that the forgetful server strands in each run."""
    asked = _scenario(_SERVERS[FORGETFUL], rate_per_s, "500 ms", replications=runs)
    return [sum(run.stranded.values()) for run in summaries(Case(FORGETFUL, rate_per_s, asked))]


def found_percent(rate_per_s: float, runs: int = _TESTS) -> float:
    """Return the percentage of tests of half a second that find the forgetful server's fault."""
    return 100 * mean(n > 0 for n in stranded_by_run(rate_per_s, runs))


def answer_for_tests() -> HiddenAnswer:
    """Return the answer to "Would a test of 50 connections a second have found it?"."""
    seldom, sometimes, often = (stranded_by_run(rate) for rate in (50, 200, 1_000))
    return answer(
        "In {runs} such tests, {found} find it at 50 connections per second, {found_some} at 200 "
        "and {found_most} at 1,000. Two clients must connect at nearly the same time: five times "
        "the load, from 200 to 1,000, strands {times} times as many on average. Such a fault "
        "passes most short tests at low load and appears in a busy hour. A longer test finds it, "
        "too: a stranded client stays stranded.",
        runs=len(seldom),
        found=sum(n > 0 for n in seldom),
        found_some=sum(n > 0 for n in sometimes),
        found_most=sum(n > 0 for n in often),
        times=times(mean(often), mean(sometimes)),
    )


def answer_for_drained() -> HiddenAnswer:
    """Return the answer to "What does draining cost?"."""
    of = loads((3_000,))
    return answer(
        "At 3,000 connections per second the CPU is {edge}% busy with a drained edge and {level}% "
        "busy with a level. Draining takes one more accept and one more read, which fail (EAGAIN), "
        "and saves the calls that change an interest: the two nearly cancel. Low cost is not the "
        "reason to use edges.",
        edge=of.value("cpu_busy_percent", EDGE, 3_000),
        level=of.value("cpu_busy_percent", LEVEL, 3_000),
    )
