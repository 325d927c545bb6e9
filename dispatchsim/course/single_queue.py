"""Lesson 1: an event loop is a queue with one server, plus the work of the kernel.

    arrivals ──► queue ──► one CPU, 50 µs each ──► latency
      M/D/1 in theory │ the student's SimPy process │ ds at costs of 0 │ ds at real costs

The first three agree: the event loop is that queue. In the fourth, calls, packets and wake-ups add
to the cost of each request.

Sources: Kleinrock 1975, "Queueing Systems", volume 1, §5.6 (Pollaczek and Khinchine).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..calibration.profiles.choosing import example_profile
from ..models.epoll.epoll_level import EpollCosts
from ..models.simulate import simulate
from ..scenario.errors import UserError
from ..scenario.scenario import Scenario
from ..sim.figures.outcome import Outcome
from ..sim.figures.summary import Summary, summarise
from ..sim.load.streams import generator
from ..sim.load.workload import REPLY_BYTES_MIN, Trace
from ..sim.state.costs import NO_CLIENT, NO_INTERRUPT, ApplicationCosts, CallCosts, Costs
from ..sim.state.settings import RunSettings
from ..sim.state.units import SECOND_NS
from ..validation.output_statistics.coverage import Queue, mean_wait
from .drawing import Picture, lines_figure, stacked_figure
from .exercises import HiddenAnswer, answer, number
from .experiments import open_loop, scenario

SERVICE_NS = 50_000
"""CPU time of the server's own code per request."""
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5)
_N = 4_000
_BARE = Costs(
    NO_INTERRUPT,
    CallCosts(0, 0, 0, 0, 0, 0, 0),
    ApplicationCosts(SERVICE_NS),
    NO_CLIENT,
    EpollCosts(0, 0, 0, 0, 0, 0),
)
_NAMES = {
    "accept": "accept", "read": "read", "write": "write", "close": "close", "user": "own code",
    "watch": "declaring interest", "rewatch": "declaring interest",
    "unwatch": "declaring interest", "wait": "waiting call", "sleep": "sleep and wake-up",
    "wake": "sleep and wake-up", "interrupt": "packets", "interrupt_idle": "packets",
}  # fmt: skip


@dataclass(frozen=True)
class Agreement:
    """Mean times in the system of the same customers, in µs, by source."""

    mean_us: dict[str, float]

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope='row'>{name}</th><td>{number(value, 'µs')}</td></tr>"
            for name, value in self.mean_us.items()
        )
        return f"<table><caption>mean time from arrival to reply</caption>{rows}</table>"


def arrivals_ns(load: float, n: int = _N, *, seed: int = 1) -> NDArray[np.int64]:
    """Return random arrival times of *n* customers in ns, shape (n,), at *load* of one server.

    Raises
    ------
    UserError
        If the load is not above 0, or there is no customer.
    """
    if not load > 0:
        raise UserError(f"load: must be above 0, got {load}")
    if n < 1:
        raise UserError(f"n: must be at least 1, got {n}")
    gaps = generator(seed, "course arrivals").exponential(SERVICE_NS / load, n)
    return np.rint(np.cumsum(gaps)).astype(np.int64)


def theory_us(load: float, service_ns: float = SERVICE_NS) -> float:
    """Return the mean time in the system of M/D/1, in µs.

    Parameters
    ----------
    load:
        Load of the server's own code, as in the whole lesson: it sets the arrival rate.
    service_ns:
        Service time of each customer. Above `SERVICE_NS` it fills more of the server with the same
        arrivals.

    Raises
    ------
    UserError
        If the server would be full.

    >>> theory_us(0.5), theory_us(0.25, service_ns=100_000)
    (75.0, 150.0)
    """
    busy = load * service_ns / SERVICE_NS
    if not 0 < busy < 1:
        rule = "must fill more than 0 and less than the whole of the server"
        raise UserError(f"load, service_ns: {rule}, got {load} and {service_ns}, which fill {busy}")
    return service_ns * (1 + mean_wait(Queue.M_D_1, busy)) / 1e3


def event_loop_us(at_ns: ArrayLike) -> float:
    """Return the mean latency, in µs, of an event loop whose only cost is its own code."""
    return summarise(_outcome(at_ns, _BARE)).latency_ns.mean / 1e3


def agreement(at_ns: ArrayLike, latencies_ns: ArrayLike) -> Agreement:
    """Return the means of theory, the student's server and the event loop at costs of 0.

    Parameters
    ----------
    at_ns:
        Arrival time of each customer, shape (n,).
    latencies_ns:
        Time of each in the student's system, shape (n,).

    Raises
    ------
    UserError
        If their shapes differ.
    """
    came, took = np.asarray(at_ns), np.asarray(latencies_ns, dtype=float)
    if came.shape != took.shape:
        raise UserError(
            f"latencies_ns: must be one for each of the {came.size} customers, got {took.size}"
        )
    load = SERVICE_NS * came.size / float(came[-1])
    return Agreement(
        {
            f"theory (M/D/1 at the actual load, {number(load)})": theory_us(load),
            "your own server": float(took.mean()) / 1e3,
            "dispatchsim, all costs 0 except own code": event_loop_us(came),
        }
    )


def real_loop(load: float, mechanism: str = "epoll_level") -> Summary:
    """Return the summary of the event loop at the costs of the lessons' profile.

    *load* is that of the server's own code alone, as in `theory_us`.
    """
    return summarise(_outcome(arrivals_ns(load), _real_costs(mechanism), mechanism))


def mean_by_load(loads: Sequence[float] = LOADS) -> dict[str, list[float]]:
    """Return mean latencies in µs by *loads*: theory, the loop at costs of 0 and at real ones."""
    return {
        "theory, M/D/1": [theory_us(load) for load in loads],
        "event loop, own code only": [event_loop_us(arrivals_ns(load)) for load in loads],
        "event loop, real costs": [real_loop(load).latency_ns.mean / 1e3 for load in loads],
    }


def latency_by_load(loads: Sequence[float] = LOADS) -> Picture:
    """Return the picture of `mean_by_load`."""
    lines = {name: (loads, values) for name, values in mean_by_load(loads).items()}
    drawing = lines_figure(
        "One queue, theory and event loop", "load of the server's own code", "mean latency (µs)",
        lines,
        is_log=True, without_line=["event loop, own code only"],
    )  # fmt: skip
    text = "Mean latency against load: the event loop at costs of 0 lies on the line of theory"
    return Picture(drawing, f"{text}; at real costs it is far above, and rises sooner.")


def cpu_us_per_request(load: float, mechanism: str = "epoll_level") -> dict[str, float]:
    """Return the CPU time of a request, in µs, by activity."""
    summary = real_loop(load, mechanism)
    parts: dict[str, float] = {}
    for activity, ns in summary.cpu.by_activity_ns.items():
        if activity in _NAMES and ns > 0:
            name = _NAMES[activity]
            parts[name] = parts.get(name, 0.0) + ns / summary.replied / 1e3
    return parts


def where_time_goes(load: float = 0.3) -> Picture:
    """Return the picture of the CPU time of a request by activity: in theory, and in a server."""
    bars = {
        "theory": {"own code": SERVICE_NS / 1e3},
        "epoll_level": cpu_us_per_request(load),
        "poll": cpu_us_per_request(load, "poll"),
    }
    drawing = stacked_figure("CPU time of one request", "CPU time (µs)", bars, least=1.0)
    text = "; ".join(f"{name}: {number(sum(parts.values()), 'µs')}" for name, parts in bars.items())
    return Picture(drawing, f"CPU time of a request by activity. {text}")


def to_watch() -> Scenario:
    """Return a server on epoll, to watch its run step by step with `ds.record`."""
    return scenario(server={"mechanism": "epoll_level"}, load=open_loop(12_000))


def answer_for_utilisation() -> HiddenAnswer:
    """Return the answer to "At which load of its own code does the server fall behind?"."""
    parts = cpu_us_per_request(0.5)
    whole, own = sum(parts.values()), parts["own code"]
    return answer(
        "At a load of 0.5 a request takes {whole} µs of CPU, of which {own} µs are the server's "
        "own code. (At a load of 0.3, as in the picture above, it takes {calm} µs: a busier server "
        "sleeps and wakes less often.) The CPU is full when the own code alone would fill {share}% "
        "of it: a profiler that sees only the program reports free capacity.",
        whole=whole,
        calm=sum(cpu_us_per_request(0.3).values()),
        own=own,
        share=100 * own / whole,
    )


def answer_for_corrected_theory() -> HiddenAnswer:
    """Return the answer to "Is M/D/1 right with all the CPU time of a request as service?"."""
    load = 0.3
    summary = real_loop(load)
    service_us = sum(cpu_us_per_request(load).values())
    predicted_us = theory_us(load, service_us * 1e3)
    return answer(
        "With a service time of {service} µs the customers of a load of 0.3 fill {busy}% of the "
        "CPU. Theory gives {theory} µs, the simulator {seen} µs. This is much closer, but not "
        "equal: packets are handled before everything else, only a request that finds the server "
        "asleep needs a wake-up, and several requests share some costs. This is good enough for an "
        "estimate on paper. It is not for the mechanisms of the next lessons, whose service time "
        "depends on the other connections.",
        service=service_us,
        busy=100 * load * service_us * 1e3 / SERVICE_NS,
        theory=predicted_us,
        seen=summary.latency_ns.mean / 1e3,
    )


def _real_costs(mechanism: str) -> Costs:
    costs = example_profile().costs(mechanism, open_connections=10, free_clients=True)
    return costs._replace(application=costs.application._replace(request_ns=SERVICE_NS))


def _outcome(at_ns: ArrayLike, costs: Costs, mechanism: str = "epoll_level") -> Outcome:
    came = np.asarray(at_ns, dtype=np.int64)
    columns = (np.full(came.size, n, np.int64) for n in (1, 64, REPLY_BYTES_MIN, 0))
    settings = RunSettings(duration_ns=int(came[-1]) + SECOND_NS, sample_every_ns=0)
    return simulate(mechanism, Trace("open", 0, came, *columns), costs, settings)
