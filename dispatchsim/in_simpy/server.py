"""A scenario's server as a component of a user's SimPy environment.

    env ─┬─ processes ── request, connect ──► Server ── work ──► processes, resources, servers
         └─ the scenario's own clients ─────────┘

Sources: SimPy 4.1, "Process interaction" and "Shared resources" (events that components yield).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any

import numpy as np
import simpy

from ..calibration.profiles.cost import CostSource
from ..calibration.running.preparation import (
    first_rows,
    job_of,
    profile_of,
    program_of,
    settings_of_job,
    trace_of,
)
from ..models.simulate import prepare_world
from ..models.simulate import program_of as whole_program
from ..scenario.errors import UserError
from ..scenario.quantities import shown
from ..scenario.scenario import Scenario, check_scenario
from ..sim.engine.hosted import HostedRun
from ..sim.figures.outcome import Outcome
from ..sim.figures.summary import Summary, summarise
from ..sim.load.workload import Trace
from ..sim.state.kinds import stage, status
from ..sim.state.world import World
from .clock import HostClock, register
from .connection import Connection, Pending, Request
from .terms import REPLY_MIN, Terms, check_bytes

Work = Callable[[Request], Generator[simpy.Event, Any, Any]]
"""The work of a request besides CPU time: a generator function, run as a process."""
_CONNECTIONS_MAX = 1_000_000


class Server:
    """The server of *scenario* in *env*, from now until the scenario's run ends.

    It runs on the reference engine: alone in the environment, its outcome equals that of `run` to
    the nanosecond. Processes connect to it as further clients of the scenario: over its network, on
    its clients' CPU, with the same way of closing. They do not retry, and their first request is
    never part of a SYN.

    Several servers in one environment have separate networks. Within one nanosecond all events of
    the environment come first, then the servers in the order in which they were made.

    Parameters
    ----------
    env:
        A `simpy.Environment`, or a subclass, such as one that keeps real time.
    scenario:
        The scenario: one replication, which ends after run.duration. A reply that has not arrived
        by then never arrives.
    unit:
        Unit of the environment's time: "ns" (whole numbers), "us", "ms" or "s" (numbers of any
        kind, rounded to the nanosecond). All servers of an environment have the same unit.
    work:
        A generator function, called with each `Request` after the server has read it and spent its
        CPU time. It runs as a process, and the worker sleeps until it ends. It may yield any
        event: a timeout, the request of a `simpy.Resource`, the request to another server.
    clients:
        Whether the scenario's own clients run; otherwise only processes and idle connections.
    connections:
        Most connections of processes open at the server at once.
    seed:
        Seed of the run; None: the scenario's first.
    profile:
        The costs; None: the profile that the scenario names.

    Attributes
    ----------
    env, scenario:
        As given.
    world:
        The state of the run, read-only.

    Raises
    ------
    TypeError
        If *env* is no SimPy environment, *scenario* no scenario, or *work* cannot be called. The
        simulation ends with this error if *work* is no generator function.
    UserError
        If the unit differs from that of the other servers of *env*, the scenario requires the fast
        engine or is that of a client, or another value breaks its rule.
    ScenarioError, ProfileError, TraceError
        If the scenario cannot be run.
    """

    def __init__(
        self,
        env: simpy.Environment,
        scenario: Scenario,
        *,
        unit: str = "ns",
        work: Work | None = None,
        clients: bool = True,
        connections: int = 10_000,
        seed: int | None = None,
        profile: CostSource | None = None,
    ) -> None:
        _check(env, scenario, work, connections, seed)
        self.env = env
        self.scenario = scenario
        clock = HostClock(env, unit, scenario.run.duration)
        seed = scenario.run.seed if seed is None else seed
        job = job_of(scenario, profile or profile_of(scenario), seed)
        settings = settings_of_job(job)
        trace = trace_of(scenario, seed, first_rows(scenario)) if clients else _nobody()
        program = whole_program(program_of(scenario))
        self.world: World = prepare_world(program, trace, job.costs, settings, n_led=connections)
        if not clients:
            self.world.next_row = self.world.end_row
        self._most = connections
        self._open: list[Connection] = []
        self._connection_of: dict[int, Connection] = {}
        self._work = work
        self._run = HostedRun(
            program,
            self.world,
            env,
            clock,
            duration_ns=settings.duration_ns,
            warm_up_ns=settings.warm_up_ns,
            number=register(env, unit),
            refill=lambda n: trace_of(scenario, seed, n),
            work=None if work is None else self._begin_work,
        )
        self._terms = Terms(env, clock, self._run, scenario)

    def request(
        self,
        size: int | None = None,
        reply_size: int | None = None,
        *,
        data: Any = None,
        timeout: float | None = None,
    ) -> Pending:
        """Connect, send one request and close; the event yields a `Reply`.

        Parameters are those of `Connection.request`. The timeout includes the handshake.

        Raises
        ------
        UserError
            If a size or a time is out of bounds, `connections` are open already, or the run has
            ended.
        """
        self._terms.check_runs("request")
        sizes = self._terms.sizes(size, reply_size)
        return self._connect(timeout).open(sizes, data)

    def connect(self, *, timeout: float | None = None) -> Pending:
        """Open a connection; the event yields a `Connection` after the handshake.

        *timeout* applies to the handshake. Errors are those of `request`.
        """
        self._terms.check_runs("connect")
        return self._connect(timeout).open()

    def outcome(self) -> Outcome:
        """Return the record until now, or until the end of the run, as `simulate` does.

        Connections of processes are included with those of the scenario's clients.
        """
        return self._run.outcome()

    def summary(self) -> Summary:
        """Return the metrics of `outcome`, from the end of the scenario's warm-up on."""
        return summarise(self.outcome())

    def _connect(self, timeout: float | None) -> Connection:
        timeout_ns = self._terms.timeout_ns(timeout)
        self._check_room()
        connection = Connection(self._terms, timeout_ns)
        self._open.append(connection)
        self._connection_of[connection.row] = connection
        return connection

    def _check_room(self) -> None:
        if len(self._open) >= self._most:
            self._open = [each for each in self._open if self._is_at_server(each.row)]
        if len(self._open) >= self._most:
            raise UserError(
                f"connections: must be at least as many as processes have open at once, got "
                f"{self._most}, all in use: close some, or raise connections= of Server"
            )

    def _is_at_server(self, c: int) -> bool:
        world = self.world
        is_over = world.status[c] != status.OPEN and world.stage[c] in (stage.NONE, stage.CLOSED)
        if is_over:
            del self._connection_of[c]
        return not is_over

    def _begin_work(self, _: Any, fd: int) -> simpy.Event:
        return self.env.process(self._work_on(self.world.connection_of[fd]))

    def _work_on(self, c: int) -> Generator[simpy.Event, Any, None]:
        """Run the user's generator for the request of *c*, and take its reply."""
        world, connection = self.world, self._connection_of.get(c)
        data = None if connection is None else connection.data
        request = Request(world.request_bytes[c], world.reply_bytes[c], data)
        assert self._work is not None
        work = self._work(request)
        if not isinstance(work, GeneratorType):
            raise TypeError(f"work: must be a generator function (it yields), got {shown(work)}")
        yield from work
        n_bytes = check_bytes("request.reply_size", request.reply_size, REPLY_MIN)
        world.reply_bytes[c] = world.unsent[c] = n_bytes
        if connection is not None:
            connection.take(request)


def _check(env: object, scenario: Scenario, work: object, connections: int, seed: object) -> None:
    if not isinstance(env, simpy.Environment):
        raise TypeError(
            f"env: must be a simpy.Environment, got {shown(env)}: use simpy.Environment()"
        )
    check_scenario(scenario)
    if scenario.run.engine == "fast":
        raise UserError(
            'run.engine: must be "reference" or "auto" in a SimPy environment, got "fast"'
        )
    if scenario.machine.role == "client":
        raise UserError('machine.role: must be "server" to serve processes, got "client"')
    if scenario.clients:
        raise UserError("clients: must be absent, as processes are the clients, got classes")
    if work is not None and not callable(work):
        raise TypeError(f"work: must be a generator function, got {shown(work)}")
    is_whole = isinstance(connections, int) and not isinstance(connections, bool)
    if not (is_whole and 0 <= connections <= _CONNECTIONS_MAX):
        raise UserError(
            f"connections: must be a whole number from 0 to {_CONNECTIONS_MAX}, "
            f"got {shown(connections)}"
        )
    if seed is not None and not (isinstance(seed, int) and seed >= 0):
        raise UserError(f"seed: must be a whole number of at least 0, got {shown(seed)}")


def _nobody() -> Trace:
    """Return a trace whose only connection never starts."""
    column = np.full(1, REPLY_MIN, np.int64)
    return Trace("open", 0, np.zeros(1, np.int64), np.ones(1, np.int64), column, column, column)
