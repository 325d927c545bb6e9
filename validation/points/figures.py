"""The compared metrics of a run, and their values in a simulated run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...calibration.running.preparation import Job, run_job
from ...sim.figures.summary import Summary, Verdict
from ...sim.state.units import SECOND_NS

NAN = float("nan")
"""A missing metric: one object, so that records without it are equal."""


class Figures(NamedTuple):
    """The compared metrics of a run, measured or simulated; NaN where there is none.

    Attributes
    ----------
    throughput_per_s:
        Replies per second of the window.
    cpu_busy:
        Share of the window in which the server's CPU was not idle.
    process_ns_per_request:
        CPU time of the server process, by its own clock, per reply.
    p50_ns, p99_ns, p999_ns:
        Latency from the intended send time to the last byte of the reply: of connections, or of
        requests on kept connections. Measured runs have p99.9 from `P999_REPLIES_LEAST`
        (records/run_result.py) replies on, simulated runs always.
    events_per_wait:
        Events returned per wait, which share its cost.
    interrupts_per_request:
        Interrupts by packets per reply. Measured runs count the calls from the client's CPU to the
        server's: packets interrupt in this way where receiving is steered to another CPU.
    """

    throughput_per_s: float
    cpu_busy: float
    process_ns_per_request: float
    p50_ns: float
    p99_ns: float
    events_per_wait: float
    p999_ns: float = NAN
    interrupts_per_request: float = NAN


Result = tuple[Figures, Verdict]
"""The result of one simulated run."""


def result_of(job: Job) -> Result:
    """Simulate one run; it may run in a separate process."""
    summary = run_job(job).summary
    load = job.scenario.load
    keeps = load.connections is not None
    return figures_of_summary(summary, requests=load.requests, keeps=keeps), summary.verdict


def figures_of_summary(summary: Summary, *, requests: int = 1, keeps: bool = False) -> Figures:
    """Return the metrics of one simulated run, counted as in measured runs.

    With *keeps* clients keep their connections, and requests are counted.
    """
    # A connection with several requests counts by its replies, as on the server.
    replied = summary.calls["replies"] if requests > 1 else summary.connections.replied
    latency_ns = summary.connections.lifetime_ns
    if keeps:
        replied, latency_ns = summary.replied, summary.latency_ns
    return Figures(
        throughput_per_s=replied * SECOND_NS / summary.window_ns,
        cpu_busy=summary.cpu_busy,
        process_ns_per_request=ratio(summary.cpu.process_ns, replied),
        p50_ns=latency_ns.p50,
        p99_ns=latency_ns.p99,
        events_per_wait=ratio(summary.calls["events"], summary.calls["waits"]),
        p999_ns=latency_ns.p999,
        interrupts_per_request=ratio(summary.calls["interrupts"], replied),
    )


def median(values: Sequence[float]) -> float:
    """Return the median of the *values* that are not NaN, or NaN for none.

    >>> median([3.0, 1.0, float("nan"), 2.0])
    2.0
    """
    known = [value for value in values if not math.isnan(value)]
    return float(np.median(known)) if known else NAN


def ratio(part: float, whole: float) -> float:
    """Return *part* / *whole*, NaN where *whole* is 0."""
    return part / whole if whole else NAN
