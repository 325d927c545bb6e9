"""Lesson 3: why the first ready descriptor matters to a blocking scan.

    slot   0         1 ... n            which is ready first?
         listener  idle connections     listener: joins no wait queue, cannot sleep any more
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
    """Return descriptors checked and wait queues joined per wait, by requests per connection.

    The request rate is the same for all. With more requests on each connection, fewer waits find
    the listener ready.

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
        f"{rate_per_s:,.0f} requests per second, {idle:,} idle connections",
        cases,
        figures=_FIGURES,
        axis="requests on each connection",
        series="server",
        is_log=True,
    )


def joined_percent(of: Experiment, requests: int) -> float:
    """Return the share of the descriptors checked whose wait queue was joined, in percent."""
    joined = of.value("registered_per_wait", BLOCKING, requests)
    return 100 * times(joined, of.value("scanned_per_wait", BLOCKING, requests))


def share_of_latency_percent(of: Experiment, requests: int) -> float:
    """Return the share of joining in the median latency of a request, in percent."""
    with_it, without = (of.value("request_p50_us", name, requests) for name in (BLOCKING, FREE))
    return 100 * (with_it - without) / with_it


def to_watch(idle: int = 6) -> Scenario:
    """Return a server on poll with a few idle connections, to watch its scans."""
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
    of = experiment("4,000 requests per second", cases, figures=_FIGURES, axis="idle connections")
    return answer(
        "poll joins {poll} wait queues per call, epoll {epoll}: it joined that of each descriptor "
        "once, in EPOLL_CTL_ADD, and stays there. This is the whole idea: epoll does once per "
        "connection what poll does at every call.",
        poll=of.value("registered_per_wait", "poll", 3_000),
        epoll=of.value("registered_per_wait", "epoll_level", 3_000),
    )


def answer_for_busy(of: Experiment) -> HiddenAnswer:
    """Return the answer to "What does a server that never blocks cost, and when is it worth it?".

    Parameters
    ----------
    of:
        From `kept_connections`.
    """
    return answer(
        "It joins no queue ({joined} per wait), and the median latency is {busy} µs instead of "
        "{blocking} µs, at one request per connection. In return the CPU is never idle, even "
        "without clients. Operators with a CPU to spare who need every microsecond do this (a "
        "timeout of 0, busy polling).",
        joined=of.value("registered_per_wait", BUSY, 1),
        busy=of.value("request_p50_us", BUSY, 1),
        blocking=of.value("request_p50_us", BLOCKING, 1),
    )
