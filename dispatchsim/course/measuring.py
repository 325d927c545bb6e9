"""Lesson 9: three ways to mislead oneself with a benchmark, and the remedies.

    which clients?         a closed loop waits while the server stalls, and does not count clients
                           that would have arrived meanwhile (coordinated omission)
    from when on?          a run that begins empty, or in a crowd, is not in steady state: MSER-5
    how certain?           neighbours in a queue are correlated: n of them hold less information
                           than n independent ones

Sources: Tene, "How not to measure latency" (2013), and the README of wrk2; Schroeder, Wierman and
Harchol-Balter 2006, "Open versus closed: a cautionary tale"; Law 2015, "Simulation Modeling and
Analysis", §9.5; White 1997 (MSER).
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..calibration.running.preparation import job_of, profile_of, record_job
from ..recording.tool_reports import seen_by_clients, tool_report
from ..scenario.scenario import Scenario
from ..sim.load.streams import generator
from ..sim.output_analysis.interval import Interval, batch_means_interval, mean_interval, t_interval
from ..sim.state.kinds import Status
from ..sim.state.units import MILLISECOND_NS
from ..studies.steady import Steady, steady
from ..validation.output_statistics.coverage import Queue, mean_wait, waits
from .drawing import Picture, lines_figure, shares_figure
from .exercises import HiddenAnswer, answer
from .experiments import open_loop, scenario, stalling

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTILES = (0.5, 0.9, 0.99, 0.999)
CLOSED, OPEN = "closed loop, 32 users", "open loop"
NAIVE, BATCHES = "one run, taken for independent", "one run, batch means"
REPLICATIONS = "10 runs, one value each"
_USERS, _THINK_MS = 32, 4
_RHO, _LENGTH = 0.7, 20_000


@dataclass(frozen=True)
class Report:
    """The output of load generators, by their names."""

    texts: dict[str, str]

    def _repr_html_(self) -> str:
        return "".join(
            f"<p>{tool}</p><pre>{html.escape(text)}</pre>" for tool, text in self.texts.items()
        )


def generator_of(loop: str, *, stall_ms: float = 100) -> Scenario:
    """Return a server that stalls once per second, under a load generator of one kind.

    Parameters
    ----------
    loop:
        `CLOSED`, whose users wait for each reply, or `OPEN`, at about the same rate.
    stall_ms:
        Length of the stall.
    """
    load = {"loop": "closed", "users": _USERS, "think_time": f"{_THINK_MS} ms"}
    if loop == OPEN:
        load = open_loop(round(_USERS * 1_000 / (_THINK_MS + 0.1)))
    return scenario(
        server={"mechanism": "epoll_level"},
        load=load,
        run={"duration": "1.1 s", "warm_up": "100 ms", "replications": 1},
        **stalling("500 ms", stall_ms),
    )


def quantiles_ms(loop: str, *, stall_ms: float = 100) -> list[float]:
    """Return the quantiles that a generator of this kind reports, in ms, as in `QUANTILES`."""
    asked = generator_of(loop, stall_ms=stall_ms)
    _, outcome = record_job(job_of(asked, profile_of(asked), asked.run.seed))
    known = (outcome.intended_ns >= outcome.mark_ns) & (outcome.status == Status.REPLIED)
    latency_ns = (outcome.done_ns - outcome.intended_ns)[known]
    return [float(value) / MILLISECOND_NS for value in np.quantile(latency_ns, QUANTILES)]


def closed_beside_open(*, stall_ms: float = 100) -> Picture:
    """Return the picture of the latencies that both generators report of the same server."""
    at = [-math.log10(1 - q) for q in QUANTILES]
    lines = {name: (at, quantiles_ms(name, stall_ms=stall_ms)) for name in (CLOSED, OPEN)}
    drawing = lines_figure(
        f"A server that stalls for {stall_ms:g} ms in a second",
        "share of the clients (%)",
        "highest latency among this share (ms)",
        lines,
        ticks={x: f"{100 * q:g}" for x, q in zip(at, QUANTILES, strict=True)},
        is_log=True,
    )
    worst = {name: values[2] for name, (_, values) in lines.items()}
    said = ", ".join(f"{name}: {value:.3g} ms" for name, value in worst.items())
    return Picture(drawing, f"p99 of one server by two load generators. {said}")


def reports(*, stall_ms: float = 100) -> Report:
    """Return the reports of wrk (a closed loop) and wrk2 (an open one) about that server."""
    texts = {}
    for tool, loop in (("wrk", CLOSED), ("wrk2", OPEN)):
        asked = generator_of(loop, stall_ms=stall_ms)
        trace, outcome = record_job(job_of(asked, profile_of(asked), asked.run.seed))
        sizes = trace.request_bytes, trace.reply_bytes
        seen = seen_by_clients(outcome, sizes)
        texts[tool] = tool_report(tool, asked, seen)
    return Report(texts)


def begun_in_a_crowd(*, runs: int = 5) -> Steady:
    """Return whether a server that starts in a crowd reaches a steady state, and when."""
    asked = scenario(
        server={"mechanism": "poll"},
        load=open_loop(
            12_000,
            arrivals="flash crowd",
            crowd_start="0 s",
            crowd_length="30 ms",
            crowd_factor=3,
        ),
        idle={"connections": 500},
        run={"duration": "400 ms", "warm_up": "0 s"},
    )
    return steady(asked, runs=runs)


@dataclass(frozen=True)
class Coverage:
    """Coverage of nominal 95% intervals in percent, by the method that made them."""

    experiments: int
    percent: dict[str, float]

    @property
    def figure(self) -> Figure:
        """The picture: one bar per method, and the nominal coverage."""
        return shares_figure(
            f"{self.experiments} experiments with a known true mean",
            "intervals that hold the true mean (%)",
            self.percent,
            promised=95.0,
        )

    def _repr_html_(self) -> str:
        text = ", ".join(f"{name}: {share:.0f}%" for name, share in self.percent.items())
        return Picture(self.figure, f"95% intervals that hold the true mean. {text}")._repr_html_()


def coverage(experiments: int = 200, *, load: float = _RHO, length: int = _LENGTH) -> Coverage:
    """Return the coverage of intervals of the mean wait in M/D/1.

    Parameters
    ----------
    experiments:
        Number of experiments, each with one run, or ten of a tenth of its length.
    load:
        Load of the server.
    length:
        Customers in a run.
    """
    rng, truth = generator(1, "course coverage"), mean_wait(Queue.M_D_1, load)
    hits = dict.fromkeys((NAIVE, BATCHES, REPLICATIONS), 0)
    for _ in range(experiments):
        run = waits(Queue.M_D_1, load, (1, length), rng)[0]
        runs = waits(Queue.M_D_1, load, (10, length // 10), rng)
        hits[NAIVE] += taken_for_independent(run).holds(truth)
        hits[BATCHES] += batch_means_interval(run).holds(truth)
        hits[REPLICATIONS] += mean_interval(runs.mean(axis=1)).holds(truth)
    return Coverage(experiments, {name: 100 * n / experiments for name, n in hits.items()})


def taken_for_independent(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Interval:
    """Return the interval of the mean that would be right for independent values."""
    error = float(values.std(ddof=1)) / values.size**0.5
    return t_interval(
        float(values.mean()), error, degrees=values.size - 1, level=0.95, how="taken as independent"
    )


def answer_for_no_stall() -> HiddenAnswer:
    """Return the answer to "What do both report if the server never stalls?"."""
    closed, opened = (quantiles_ms(name, stall_ms=0) for name in (CLOSED, OPEN))
    return answer(
        "The closed loop reports a p99 of {closed} ms, the open one {opened} ms: nearly the same. "
        "As long as no client waits for long, the kind of loop does not matter. So the fault stays "
        "unnoticed until the server stalls, the very case that the benchmark is for.",
        closed=closed[2],
        opened=opened[2],
    )


def answer_for_more_customers() -> HiddenAnswer:
    """Return the answer to "Does the naive interval get better with ten times the customers?"."""
    short, long = coverage(100, length=2_000), coverage(100)
    return answer(
        "With 2,000 customers it holds the true mean in {short}% of the experiments, with 20,000 "
        "in {long}%. In a longer run it narrows as fast as the error shrinks, so it stays as wrong "
        "as before. It ignores the correlation of neighbours: a customer that joins a long queue "
        "leaves a long queue behind.",
        short=short.percent[NAIVE],
        long=long.percent[NAIVE],
    )
