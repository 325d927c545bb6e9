"""Lesson 6: told of states, or told of changes; and whom a forgetful server leaves behind.

    level   "there is something"      told again until there is not
    edge    "something has come"      told once: go on until a call would block, or remember

    two connect at once ─► one notice ─► accept one ─► wait ... the second is in the queue for ever,
                                                        and whoever comes later is behind it

Sources: epoll(7), "Level-triggered and edge-triggered", "Possible pitfalls"; Gammo et al. 2004,
§3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..scenario import Scenario
from .experiments import Case, Experiment, experiment, scenario
from .hidden_answer import HiddenAnswer, answer

RATES_PER_S = (50, 200, 1_000, 3_000)
LEVEL, EDGE, FORGETFUL = "level, one accept", "edge, drains", "edge, one accept"
PROFILE = "epyc-family25-2cpu-linux-6.18"
_SERVERS: dict[str, dict[str, Any]] = {
    LEVEL: {"mechanism": "epoll_level", "accept_limit": 1},
    EDGE: {"mechanism": "epoll_edge"},
    FORGETFUL: {"mechanism": "epoll_edge", "accept_limit": 1, "remembers": False},
}


def loads(rates_per_s: Sequence[float] = RATES_PER_S) -> Experiment:
    """Return latency, and who is stranded, by load: three servers on epoll.

    Parameters
    ----------
    rates_per_s:
        Connections offered, one request each.
    """
    cases = [
        Case(name, rate, _scenario(server, rate, "500 ms"))
        for name, server in _SERVERS.items()
        for rate in rates_per_s
    ]
    return experiment(
        "Servers on epoll",
        cases,
        figures=["stranded", "latency_p50_us", "cpu_busy_percent"],
        axis="connections offered per second",
        series="server",
        is_log=True,
    )


def lengths(
    seconds: Sequence[float] = (0.25, 0.5, 1, 2), *, rate_per_s: float = 1_000
) -> Experiment:
    """Return latency, and who is stranded, by the length of the run.

    Parameters
    ----------
    seconds:
        Of simulated time.
    rate_per_s:
        Connections offered, one request each.
    """
    cases = [
        Case(name, length, _scenario(server, rate_per_s, f"{length} s"))
        for name, server in _SERVERS.items()
        for length in seconds
    ]
    return experiment(
        f"Servers on epoll, {rate_per_s:,.0f} connections a second",
        cases,
        figures=["stranded", "latency_p50_us"],
        axis="length of the run (s)",
        series="server",
    )


def to_watch(rate_per_s: float = 3_000) -> Scenario:
    """Return the forgetful server, whose accept queue can be watched by `ds.record`."""
    return _scenario(_SERVERS[FORGETFUL], rate_per_s, "500 ms")


def _scenario(server: dict[str, Any], rate_per_s: float, duration: str) -> Scenario:
    return scenario(
        server=server,
        load={"loop": "open", "rate": f"{rate_per_s}/s"},
        machine={"profile": PROFILE},
        run={"duration": duration},
    )


def answer_for_tests() -> HiddenAnswer:
    """Return the answer to "Would a test of 50 connections a second have found it?"."""
    of = loads((50, 1_000))
    return answer(
        "At 50 connections a second {slow} are stranded after half a second (a mean of three "
        "runs), at 1,000 {fast}. Two must come at nearly the same time, and such pairs "
        "grow with the square of the load. A fault like this passes every test, and waits for its "
        "first busy hour.",
        slow=of.value("stranded", FORGETFUL, 50),
        fast=of.value("stranded", FORGETFUL, 1_000),
    )


def answer_for_drained() -> HiddenAnswer:
    """Return the answer to "What does it cost to drain?"."""
    of = loads((3_000,))
    return answer(
        "At 3,000 connections a second the CPU is busy for {edge} % of the time with an edge that "
        "is drained and for {level} % with a level. To drain takes one accept and one read more "
        "that fail (EAGAIN), and saves the calls that change an interest: it is nearly even. The "
        "reason to be told of changes is not that it is cheap.",
        edge=of.value("cpu_busy_percent", EDGE, 3_000),
        level=of.value("cpu_busy_percent", LEVEL, 3_000),
    )
