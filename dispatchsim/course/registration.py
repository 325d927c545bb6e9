"""Lesson 3: why a blocking scan cares who is ready first.

    slot   0         1 ... n            who is ready first?
         listener  idle connections     listener: joins no wait queue, may not sleep any more
           scan + register ──► first ready ──► scan only       active: joined all before it

A poll that may block joins the wait queue of every descriptor it passes, until it finds the first
that is ready. The listener is in slot 0 and the clients' connections are behind the idle ones.

Sources: Linux fs/select.c do_poll(), __pollwait(); Provos and Lever 2000, §6 (wait queues).
"""

from __future__ import annotations

from typing import Any

from ..calibration.profiles.choosing import example_profile
from ..scenario.scenario import Scenario
from .exercises import HiddenAnswer, answer
from .experiments import Experiment, cases_over, experiment, open_loop, scenario, times

REQUESTS = (1, 2, 5, 20)
BLOCKING, FREE, BUSY = "poll", "poll, joining for free", "poll, never blocking"
_FIGURES = ("request_p50_us", "scanned_per_wait", "registered_per_wait", "cpu_busy_percent")


def kept_connections(rate_per_s: float = 4_000, *, idle: int = 3_000) -> Experiment:
    """Return what a wait looks at and joins, by how long clients keep their connections.

    As many requests a second, of connections that are kept for more and more of them: fewer and
    fewer waits find the listener ready.

    Parameters
    ----------
    rate_per_s:
        Requests of all clients together.
    idle:
        Connections that are open and silent.
    """
    free = example_profile().without(["*.register", "*.release"])

    def asked(server: dict[str, Any], requests: int) -> Scenario:
        return scenario(
            server={"mechanism": "poll", **server},
            load=open_loop(rate_per_s / requests, requests=requests, think_time="2 ms"),
            idle={"connections": idle},
        )

    blocking: dict[str, Any] = {}
    servers = {BLOCKING: blocking, FREE: blocking, BUSY: {"busy": True}}
    cases = [
        case._replace(profile=free if case.series == FREE else None)
        for case in cases_over(servers, REQUESTS, asked)
    ]
    return experiment(
        f"{rate_per_s:,.0f} requests a second, {idle:,} idle connections",
        cases,
        figures=_FIGURES,
        axis="requests on each connection",
        series="server",
        is_log=True,
    )


def joined_percent(of: Experiment, requests: int) -> float:
    """Return the share of the descriptors looked at whose wait queue was joined, in percent."""
    joined = of.value("registered_per_wait", BLOCKING, requests)
    return 100 * times(joined, of.value("scanned_per_wait", BLOCKING, requests))


def share_of_latency_percent(of: Experiment, requests: int) -> float:
    """Return what joining costs of the median latency of a request, in percent."""
    with_it, without = (of.value("request_p50_us", name, requests) for name in (BLOCKING, FREE))
    return 100 * (with_it - without) / with_it


def to_watch(idle: int = 6) -> Scenario:
    """Return a server on poll with a few idle connections, whose scans can be watched."""
    return scenario(
        server={"mechanism": "poll"},
        load=open_loop(16_000),
        idle={"connections": idle},
    )


def answer_for_epoll() -> HiddenAnswer:
    """Return the answer to "How many wait queues does an epoll server join in a wait?"."""

    def asked(mechanism: str, idle: int) -> Scenario:
        return scenario(
            server={"mechanism": mechanism}, load=open_loop(4_000), idle={"connections": idle}
        )

    cases = cases_over({name: name for name in ("poll", "epoll_level")}, [3_000], asked)
    of = experiment("4,000 requests a second", cases, figures=_FIGURES, axis="idle connections")
    return answer(
        "poll joins {poll} wait queues in a call, epoll {epoll}: it joined that of each descriptor "
        "once, when EPOLL_CTL_ADD was called, and stays there. That is the whole idea: what poll "
        "does at every call is done once a connection.",
        poll=of.value("registered_per_wait", "poll", 3_000),
        epoll=of.value("registered_per_wait", "epoll_level", 3_000),
    )


def answer_for_busy(of: Experiment) -> HiddenAnswer:
    """Return the answer to "What does a server pay that never blocks, and who would do so?".

    Parameters
    ----------
    of:
        As of `kept_connections`.
    """
    return answer(
        "It joins no queue ({joined} a wait), and a request waits {busy} µs instead of {blocking} "
        "µs in the median, at one request a connection. The price is a CPU that is never idle, "
        "even if nobody comes. Who has a CPU for it, and counts microseconds, does just that "
        "(a time-out of 0, busy polling).",
        joined=of.value("registered_per_wait", BUSY, 1),
        busy=of.value("request_p50_us", BUSY, 1),
        blocking=of.value("request_p50_us", BLOCKING, 1),
    )
