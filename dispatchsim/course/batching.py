"""Lesson 4: why a select server with a full CPU can keep up with several times the load.

    load ──► longer queues ──► more events per wait ──► more share a scan ──► cheaper requests
                                        └── unless each wait accepts one client (accept_limit = 1)

Sources: Chandra and Mosberger 2001, §4.3 (multi-accept select); Brecht, Pariag and Gammo 2004.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..scenario.scenario import Scenario
from .exercises import HiddenAnswer, answer
from .experiments import Experiment, cases_over, experiment, open_loop, scenario, times

RATES_PER_S = (1_000, 2_000, 5_000, 10_000, 15_000, 20_000)
ALL, ONE = "select, accepts all", "select, accepts one"
FULL_PERCENT = 97.0
"""CPU use from which operators call a server saturated."""
KEPT_UP = 0.97
"""Share of the offered load that a server must serve to count as keeping up."""


def rising_load(
    rates_per_s: Sequence[float] = RATES_PER_S, *, idle: int = 2_000, mechanism: str = "select"
) -> Experiment:
    """Return throughput and cost per request by load, with all accepts and with one per wait.

    Parameters
    ----------
    rates_per_s:
        Connections offered, one request each.
    idle:
        Connections that are open and silent.
    mechanism:
        Mechanism of the server.
    """
    limits = {ALL: 0, ONE: 1} if mechanism == "select" else {mechanism: 0, f"{mechanism}, one": 1}

    def asked(limit: int, rate_per_s: float) -> Scenario:
        return scenario(
            server={"mechanism": mechanism, "accept_limit": limit},
            load=open_loop(rate_per_s),
            idle={"connections": idle},
        )

    return experiment(
        f"{idle:,} idle connections",
        cases_over(limits, rates_per_s, asked),
        figures=["answered_per_s", "cpu_busy_percent", "events_per_wait", "cpu_us_per_request"],
        axis="connections offered per second",
        series="server",
        is_log=True,
    )


def full_at_per_s(of: Experiment, series: str = ALL) -> float:
    """Return the lowest load at which the CPU is full; NaN if none is."""
    busy = zip(of.places, of.values("cpu_busy_percent", series), strict=True)
    return next((rate for rate, percent in busy if percent >= FULL_PERCENT), float("nan"))


def keeps_up_to_per_s(of: Experiment, series: str = ALL) -> float:
    """Return the highest load at which the server serves all requests; NaN if none."""
    answered = zip(of.places, of.values("answered_per_s", series), strict=True)
    kept = [rate for rate, per_s in answered if per_s >= KEPT_UP * rate]
    return max(kept, default=float("nan"))


def cheaper(of: Experiment) -> float:
    """Return the cost of a request at the lowest load over that at the highest."""
    costs_us = of.values("cpu_us_per_request", ALL)
    return times(costs_us[0], costs_us[-1])


def answer_for_monitoring(of: Experiment) -> HiddenAnswer:
    """Return the answer to "A monitor shows 99% CPU; how much more load can the server take?".

    Parameters
    ----------
    of:
        From `rising_load`.
    """
    full, kept = full_at_per_s(of), keeps_up_to_per_s(of)
    return answer(
        "Its CPU is full from {full} connections per second, yet it keeps up with {kept}: {factor} "
        "times as many. A busy server is not saturated if the work per request shrinks when more "
        "requests arrive together. A better sign is the number of events per wait: {few} where the "
        "CPU first becomes full, {many} at the highest load that the server keeps up with.",
        full=full,
        kept=kept,
        factor=times(kept, full),
        few=of.value("events_per_wait", ALL, full),
        many=of.value("events_per_wait", ALL, kept),
    )


def answer_for_epoll() -> HiddenAnswer:
    """Return the answer to "Does an epoll server need its batches as much?"."""
    rates = (1_000, 5_000, 10_000, 20_000)
    of = rising_load(rates, mechanism="epoll_level")
    series = of.names[0]
    costs_us = of.values("cpu_us_per_request", series)
    return answer(
        "A request costs {first} µs of CPU at 1,000/s and {last} µs at 20,000/s. There is little "
        "to share, as a wait that checks only ready descriptors is cheap. The rest is the entry "
        "into the kernel, the sleep and the wake-up.",
        shows=of,
        first=costs_us[0],
        last=costs_us[-1],
    )
