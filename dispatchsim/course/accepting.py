"""Lesson 7: how many connections to accept per notification, and which clients wait for it.

    accept queue ──► accept_limit per wait ──► accepted connections
      too few: one scan each, the queue overflows, SYNs are dropped: their clients wait 1 s
      too many: accepted connections wait while new ones are accepted

Sources: Brecht, Pariag and Gammo 2004, "accept()able strategies for improving web server
performance"; Chandra and Mosberger 2001, §4.3; RFC 6298 (one second per lost SYN).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..scenario.scenario import Scenario
from .exercises import HiddenAnswer, answer
from .experiments import Experiment, cases_over, experiment, open_loop, scenario

LIMITS = (1, 2, 8, 64)
SCANNING, TOLD = "poll", "epoll_level"


def limits(
    accept_limits: Sequence[int] = LIMITS, *, rate_per_s: float = 12_000, backlog: int = 512
) -> Experiment:
    """Return throughput and drops by the number of accepts per wait.

    Parameters
    ----------
    accept_limits:
        Accepts for one notification.
    rate_per_s:
        Connections offered, one request each; 1,000 are open and silent.
    backlog:
        Connections that may wait to be accepted.
    """
    return _by_limit(
        f"{rate_per_s:,.0f} connections per second, 1,000 idle",
        open_loop(rate_per_s),
        accept_limits,
        backlog,
        figures=["answered_per_s", "latency_p50_us", "syn_drops"],
    )


def crowd(
    accept_limits: Sequence[int] = (1, 8, 64, 256), *, factor: int = 8, backlog: int = 512
) -> Experiment:
    """Return the losses of a flash crowd of 20 ms, by the number of accepts per wait.

    Parameters
    ----------
    accept_limits:
        Accepts for one notification.
    factor:
        Factor by which the crowd multiplies the load.
    backlog:
        Connections that may wait to be accepted.
    """
    load = open_loop(
        12_000,
        arrivals="flash crowd",
        crowd_start="100 ms",
        crowd_length="20 ms",
        crowd_factor=factor,
    )
    return _by_limit(
        f"A crowd of 20 ms at {factor} times the load",
        load,
        accept_limits,
        backlog,
        figures=["syn_drops", "latency_p50_us", "latency_p99_ms"],
    )


def _by_limit(
    title: str,
    load: dict[str, Any],
    accept_limits: Sequence[int],
    backlog: int,
    *,
    figures: Sequence[str],
) -> Experiment:
    """Return an experiment on an open loop with 1,000 idle connections, by accepts per wait."""

    def asked(mechanism: str, limit: int) -> Scenario:
        return scenario(
            server={"mechanism": mechanism, "accept_limit": limit, "backlog": backlog},
            load=load,
            idle={"connections": 1_000},
        )

    cases = cases_over({name: name for name in (SCANNING, TOLD)}, accept_limits, asked)
    return experiment(
        title, cases, figures=figures, axis="accepts for one notification", is_log=True
    )


def answer_for_backlog() -> HiddenAnswer:
    """Return the answer to "Is a longer backlog as good as more accepts?"."""
    short, long = (crowd((1, 256), backlog=backlog) for backlog in (512, 4_096))
    return answer(
        "With a backlog of 512, epoll drops {few} SYNs with one accept per wait and {many_short} "
        "with 256; with a backlog of 4,096 it drops {none} and {none_too}. A queue holds any crowd "
        "that ends before the queue is full. Accepting faster only moves connections from a "
        "bounded queue to the server's own, which is unbounded. In a lasting overload neither "
        "helps.",
        shows=long,
        few=short.value("syn_drops", TOLD, 1),
        many_short=short.value("syn_drops", TOLD, 256),
        none=long.value("syn_drops", TOLD, 1),
        none_too=long.value("syn_drops", TOLD, 256),
    )


def answer_for_low_load() -> HiddenAnswer:
    """Return the answer to "Does the limit matter at 2,000 connections a second?"."""
    of = limits((1, 64), rate_per_s=2_000)
    return answer(
        "Hardly: poll's clients wait a median of {one} µs with one accept and {many} µs with up to "
        "64. Most waits find one new client, so the limit has no effect. A setting that makes no "
        "difference in a test at normal load may still decide the outcome at high load.",
        one=of.value("latency_p50_us", SCANNING, 1),
        many=of.value("latency_p50_us", SCANNING, 64),
    )
