"""The M/M/1 queue of `single_queue` on an engine: a server that does nothing but reply.

Epoll with a kernel that costs nothing, free clients and infinite links: only the write of the
reply takes time, one nanosecond a byte, so the size of the reply is the service time. The server
takes its events in the order of arrival, so the queue is first come, first served. A reply has at
least 64 bytes and a time is a whole nanosecond: one service in 780 is longer than drawn, by 32 ns
where the mean is 50,000.
"""

from __future__ import annotations

import numpy as np

from ...models.epoll.epoll_level import EpollCosts
from ...sim.load.workload import REPLY_BYTES_MIN, Trace
from ...sim.state.costs import NO_CLIENT, NO_INTERRUPT, ApplicationCosts, CallCosts, Costs
from ...sim.state.settings import ClientSettings, RunSettings, ServerSettings
from ...sim.state.units import SECOND_NS
from .contestants import run
from .scenarios import Scenario
from .single_queue import Customers, QueueRun

SERVICE_NS = 50_000
"""The mean service time: that many bytes are far from 64 and far from a full send buffer."""
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
        server=ServerSettings(backlog=_BACKLOG, fd_limit=n + _SPARE_FDS),
        client=ClientSettings(fd_limit=n + _SPARE_FDS),
        # Long enough whatever comes: all arrivals, then all services at once.
        duration_ns=int(at_ns[-1] + reply_bytes.sum()) + SECOND_NS,
        sample_every_ns=0,
    )
    return Scenario("epoll_level", trace, _COSTS, settings)


def run_queue_on_epoll(engine: str, customers: Customers) -> QueueRun:
    """Simulate the queue on an engine; its mean is in the seconds of *customers*."""
    ran = run(engine, queue_scenario(customers))
    assert ran.outcome is not None
    in_system_ns = ran.outcome.done_ns - ran.outcome.intended_ns
    return QueueRun(ran.n, float(np.mean(in_system_ns)) / SERVICE_NS, ran.took)
