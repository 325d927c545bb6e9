"""M/M/1 with the same customers in bare SimPy, Ciw, salabim and on the engines.

Each tool models the queue as in its own manual, with the same gaps between arrivals and the same
service times. So each finds the same mean time in system, and only the CPU time differs. Ciw and
salabim belong to the optional extra `bench`.

On an engine the queue is a server that only replies: epoll with a kernel without costs, free
clients and infinite links. Only the write of the reply takes time, one nanosecond per byte, so the
size of the reply is the service time. The server takes events in the order of arrival, so the queue
is first come, first served. A reply has at least 64 bytes and a time is a whole nanosecond: one
service in 780 is longer than its random value, by 32 ns with a mean of 50,000.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Generator
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from ...models.epoll.epoll_level import EpollCosts
from ...sim.load.streams import generator
from ...sim.load.workload import REPLY_BYTES_MIN, Trace
from ...sim.state.client_settings import ClientSettings
from ...sim.state.costs import NO_CLIENT, NO_INTERRUPT, ApplicationCosts, CallCosts, Costs
from ...sim.state.kernel_settings import LimitSettings
from ...sim.state.settings import RunSettings
from ...sim.state.units import SECOND_NS
from .contestants import run
from .results import cpu_seconds
from .scenarios import Scenario

_MODULES = {"SimPy": "simpy", "Ciw": "ciw", "salabim": "salabim"}


class Customers(NamedTuple):
    """Gaps between arrivals and service times: float64 arrays of one shape, in s."""

    gap_s: NDArray[np.float64]
    service_s: NDArray[np.float64]


class QueueRun(NamedTuple):
    """The result of a tool, and its CPU time.

    `mean_s` is the mean time in system of the simulated customers, in seconds of simulated time;
    `took` is the CPU time of the run.
    """

    customers: int
    mean_s: float
    took: float


class MissingToolError(ImportError):
    """A tool is not installed; the message has the command that installs it."""


def draw_customers(n: int, load: float, seed: int) -> Customers:
    """Return *n* customers of an M/M/1 queue with a mean service time of 1 s.

    Raises
    ------
    ValueError
        If there are no customers, or the load is not between 0 and 1.
    """
    if n < 1 or not 0 < load < 1:
        raise ValueError(f"a queue needs customers and a load between 0 and 1, got {n} and {load}")
    gap_s = generator(seed, "gaps").exponential(1 / load, n)
    return Customers(gap_s, generator(seed, "services").exponential(1.0, n))


def available() -> dict[str, str]:
    """Return the installed tools and their versions."""
    return {
        tool: metadata.version(module)
        for tool, module in _MODULES.items()
        if importlib.util.find_spec(module) is not None
    }


def run_queue(tool: str, customers: Customers) -> QueueRun:
    """Simulate the queue with *tool*: one of "SimPy", "Ciw", "salabim".

    Raises
    ------
    MissingToolError
        If the tool is not installed.
    ValueError
        For an unknown tool.
    """
    if tool not in TOOLS:
        raise ValueError(f'tool must be one of {", ".join(TOOLS)}, got "{tool}"')
    if tool not in available():
        raise MissingToolError(f"{tool} is not installed: pip install 'dispatchsim[bench]'")
    return TOOLS[tool](customers)


def _simpy_queue(customers: Customers) -> QueueRun:
    """Run a process for each customer; it requests a Resource."""
    env = simpy.Environment()
    server = simpy.Resource(env, capacity=1)
    in_system_s: list[float] = []

    def customer(service_s: float) -> Generator[simpy.Event, Any, None]:
        arrived_s = env.now
        with server.request() as turn:
            yield turn
            yield env.timeout(service_s)
        in_system_s.append(env.now - arrived_s)

    def source() -> Generator[simpy.Event, Any, None]:
        for gap_s, service_s in zip(*(column.tolist() for column in customers), strict=True):
            yield env.timeout(gap_s)
            env.process(customer(service_s))

    env.process(source())
    return _found(in_system_s, cpu_seconds(env.run))


def _ciw_queue(customers: Customers) -> QueueRun:
    """Run a network of one node that takes both sequences in turn."""
    ciw: Any = importlib.import_module("ciw")
    gap_s, service_s = (column.tolist() for column in customers)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential(gap_s)],
        service_distributions=[ciw.dists.Sequential(service_s)],
        number_of_servers=[1],
    )
    simulation = ciw.Simulation(network)
    took = cpu_seconds(lambda: simulation.simulate_until_max_customers(len(gap_s), method="Finish"))
    records = simulation.get_all_records()
    return _found([r.exit_date - r.arrival_date for r in records], took)


def _salabim_queue(customers: Customers) -> QueueRun:
    """Run a component for each customer; it requests a Resource."""
    salabim: Any = importlib.import_module("salabim")
    # Processes are generators, as in SimPy: without `yield` salabim needs greenlet, too.
    env = salabim.Environment(trace=False, yieldless=False)
    server = salabim.Resource("server", capacity=1)
    in_system_s: list[float] = []

    class Customer(salabim.Component):  # type: ignore[misc]
        def process(self, service_s: float) -> Generator[Any, Any, None]:
            arrived_s = env.now()
            yield self.request(server)
            yield self.hold(service_s)
            self.release(server)
            in_system_s.append(env.now() - arrived_s)

    class Source(salabim.Component):  # type: ignore[misc]
        def process(self) -> Generator[Any, Any, None]:
            for gap_s, service_s in zip(*(column.tolist() for column in customers), strict=True):
                yield self.hold(gap_s)
                Customer(service_s=service_s)

    Source()
    return _found(in_system_s, cpu_seconds(env.run))


def _found(in_system_s: list[float], took: float) -> QueueRun:
    return QueueRun(len(in_system_s), float(np.mean(in_system_s)), took)


TOOLS: dict[str, Callable[[Customers], QueueRun]] = {
    "SimPy": _simpy_queue,
    "Ciw": _ciw_queue,
    "salabim": _salabim_queue,
}
"""The function of each tool."""


SERVICE_NS = 50_000
"""The mean service time; its number of bytes is far from 64 and from a full send buffer."""
_KIB = 1024
_BACKLOG = 65_536
_SPARE_FDS = 1_024
_CALLS = CallCosts(0, 0, 0, 0, 0, write_kib_ns=_KIB, close_ns=0)
_COSTS = Costs(
    interrupt=NO_INTERRUPT,
    call=_CALLS,
    application=ApplicationCosts(request_ns=0),
    client=NO_CLIENT,
    mechanism=EpollCosts(*[0] * len(EpollCosts._fields)),
)


def queue_scenario(customers: Customers) -> Scenario:
    """Return the scenario whose connections are *customers*, their seconds scaled."""
    n = customers.gap_s.size
    at_ns = np.rint(np.cumsum(customers.gap_s) * SERVICE_NS).astype(np.int64)
    service_ns = np.rint(customers.service_s * SERVICE_NS).astype(np.int64)
    ones = np.ones(n, np.int64)
    reply_bytes = np.maximum(REPLY_BYTES_MIN, service_ns)
    trace = Trace("open", 0, at_ns, ones, ones, reply_bytes, np.zeros(n, np.int64))
    settings = RunSettings(
        limits=LimitSettings(backlog=_BACKLOG, fd_limit=n + _SPARE_FDS),
        client=ClientSettings(fd_limit=n + _SPARE_FDS),
        # Always long enough: all arrivals, then all services.
        duration_ns=int(at_ns[-1] + reply_bytes.sum()) + SECOND_NS,
        sample_every_ns=0,
    )
    return Scenario("epoll_level", trace, _COSTS, settings)


def run_queue_on_epoll(engine: str, customers: Customers) -> QueueRun:
    """Simulate the queue on an engine; its mean is in the seconds of *customers*."""
    ran = run(engine, queue_scenario(customers))
    in_system_ns = ran.outcome.done_ns - ran.outcome.intended_ns
    return QueueRun(ran.n, float(np.mean(in_system_ns)) / SERVICE_NS, ran.took)
