"""A simulated kernel on which a scene acts step by step; only `run` advances time and programs.

    members   0 ... m-1   idle connections that the server watches
    clients   0 ... n-1   of a trace: not connected yet

A scene calls the same functions as an engine does when packets arrive and programs make system
calls, so it tests the laws of sim/ and models/ that both engines run. Costs do not matter here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from ...calibration.rules.asked import Value
from ...models.catalogue import CATALOGUE
from ...models.releases import with_release
from ...models.simulate import prepare_world, program_of
from ...sim.engine.reference import Extension, Observer, ReferenceRun
from ...sim.kernel import sockets
from ...sim.load.workload import Trace
from ...sim.state.client_settings import ClientSettings, NetworkSettings
from ...sim.state.costs import (
    NO_CLIENT,
    NO_INTERRUPT,
    ApplicationCosts,
    CallCosts,
    Costs,
    Curve,
    flat,
)
from ...sim.state.event_calendar import post
from ...sim.state.kinds import NONE, READABLE, SLEEP, stage
from ...sim.state.mechanism import Program
from ...sim.state.settings import FloodSettings, RunSettings, having
from ...sim.state.units import SECOND_NS
from ...sim.state.world import Cpu, Worker, World
from ...sim.tcp.arriving import request_handled
from ...sim.tcp.closing import fin_handled, gone_handled
from ...sim.tcp.listen_queue import enters_queue, listener_of

BYTES = 100
"""Default size of a request and of a reply."""
_NO_NETWORK, _NO_FLOOD = NetworkSettings(), FloodSettings()
_Simulates = Callable[[], Value]
_OfRelease = Callable[[str], Value]


class Scene(NamedTuple):
    """The smallest run of the simulator that tests a rule of a Linux release.

    `declared`: there is no run, only a constant, a flag or a default of the model. Its agreement
    with Linux is no evidence.
    """

    answer: Callable[[str], Value]
    declared: bool = False


class Scenes(dict[str, Scene]):
    """The scenes of a module, by rule; its methods are decorators that add functions."""

    def scene(self, *rules: str, declared: bool = False) -> Callable[[_Simulates], _Simulates]:
        """Register the function for *rules*, in any release."""

        def register(function: _Simulates) -> _Simulates:
            self.update(dict.fromkeys(rules, Scene(lambda _: function(), declared)))
            return function

        return register

    def scene_of_release(self, rule: str) -> Callable[[_OfRelease], _OfRelease]:
        """Register the function for *rule*; its argument is the kernel's release."""

        def register(function: _OfRelease) -> _OfRelease:
            self[rule] = Scene(function)
            return function

        return register


class NullObserver:
    """An observer that records nothing; observers of scenes override one of its functions."""

    def step_ends(self, world: World, cpu: Cpu) -> None:
        """Record nothing of a step."""

    def went_on(self, world: World) -> None:
        """Record nothing of the following state."""

    def happened(self, world: World, kind: int, subject: int) -> None:
        """Record nothing of an occurrence."""


def _costs(mechanism: str, packet_ns: int) -> Costs:
    """Return costs of 1 ns for each operation of the mechanism, and *packet_ns* for a packet."""
    interrupt = NO_INTERRUPT._replace(
        syn_ns=packet_ns, ack_ns=packet_ns, data_ns=packet_ns, datagram_ns=packet_ns
    )
    kinds = get_type_hints(CATALOGUE[mechanism].costs).values()
    own = CATALOGUE[mechanism].costs(*(flat(1) if kind is Curve else 1 for kind in kinds))
    return Costs(interrupt, CallCosts(0, 0, 0, 0, 0, 0, 0), ApplicationCosts(0), NO_CLIENT, own)


class Bench:
    """The kernel of a server that waits with *mechanism*, and the packets that reach it.

    Further keywords are settings of the server (`having`). `run` executes *program*. With a
    *release* the rules of that kernel apply. Packets take *packet_ns* each.
    """

    def __init__(
        self,
        mechanism: str = "epoll_level",
        *,
        members: int = 0,
        clients: int = 8,
        at_ns: int | Sequence[int] = 0,
        reply_bytes: int = BYTES,
        client: ClientSettings | None = None,
        network: NetworkSettings = _NO_NETWORK,
        flood: FloodSettings = _NO_FLOOD,
        packet_ns: int = 0,
        program: Program | None = None,
        extend: Extension | None = None,
        observe: Observer | None = None,
        seconds: int = 100,
        release: str = "",
        **server: Any,
    ) -> None:
        values = (at_ns, 1, BYTES, reply_bytes, 0)
        columns = (np.array(np.broadcast_to(value, clients), np.int64) for value in values)
        trace = Trace("open", 0, *columns)
        settings = RunSettings(
            client=(client or ClientSettings())._replace(idle=members),
            network=network,
            flood=flood,
            duration_ns=seconds * SECOND_NS,
            sample_every_ns=0,
        )
        settings = having(settings, **server)
        settings = with_release(settings, mechanism, release)
        program = program or program_of(mechanism)
        self.mechanism = program.mechanism
        self.world = prepare_world(program, trace, _costs(mechanism, packet_ns), settings)
        self._run = ReferenceRun(
            program, self.world, duration_ns=settings.duration_ns, extend=extend, observe=observe
        )
        self.worker: Worker = self.world.workers[0]
        self.interests = self.worker.interests

    def run(self) -> None:
        """Execute the whole run, with its program and its clients."""
        self._run.run()

    # ---- members ----

    def fd(self, member: int) -> int:
        """Return the descriptor of *member*."""
        return self.world.fd_of[member]

    def member(self, fd: int) -> int:
        """Return the member, or the client, whose descriptor is *fd*; NONE: it is a listener."""
        c = self.world.connection_of[fd]
        return c if c < self.world.n_idle else c - self.world.n_idle

    def post(self, fd: int, what: int = READABLE) -> None:
        """Post an event on *fd*, and notify the mechanism."""
        self.world.n_posted = 0
        post(self.world, fd, what)
        self.tell()

    def arrive(self, *members: int) -> None:
        """Let data arrive for *members*, in this order."""
        for member in members:
            self.post(self.fd(member))

    def tell(self) -> int:
        """Notify the mechanism of posted events, as engines do; return how many workers it woke."""
        n_woken = self._run.tell()
        self.world.n_posted = 0
        return n_woken

    def drain(self, member: int) -> None:
        """Read all data that has arrived for *member*."""
        self.world.state[self.fd(member)] &= ~READABLE

    # ---- calls of the server ----

    def do(self, steps: Iterable[int]) -> bool:
        """Execute all *steps* of a call; return False if it would sleep."""
        return all(step != SLEEP for step in steps)

    def wait(self, n_max: int = 1024) -> list[int]:
        """Return the members, or clients, that one wait reports; NONE is a listener."""
        self.world.program = self.world.program._replace(max_events=n_max)
        if not self.do(self.mechanism.wait(self.world, self.worker)):
            self.interests.n_waiting = 0  # undo the wait: the scene goes on
            return []
        return [self.member(fd) for fd in self.worker.event_fd[: self.worker.n_events]]

    def sleepers(self) -> Iterator[int]:
        """Have each worker sleep in its wait, one after the other; yield its number."""
        for worker in self.world.workers:
            assert not self.do(self.mechanism.wait(self.world, worker))
            worker.blocked = False  # the engine would put it back on its CPU
            yield worker.number

    def rewatch(self, member: int, interest: int = READABLE) -> None:
        """Change the interest in *member*, or declare it again."""
        self.do(self.mechanism.rewatch(self.world, self.worker, self.fd(member), interest))

    def unwatch(self, member: int) -> None:
        """Withdraw the interest in *member*."""
        self.do(self.mechanism.unwatch(self.world, self.worker, self.fd(member)))

    # ---- clients ----

    def c(self, client: int) -> int:
        """Return the connection of *client*."""
        return self.world.n_idle + client

    def half_open(self, client: int) -> int:
        """Handle the SYN of *client* with a SYN-ACK; return the connection."""
        c = self.c(client)
        self.world.stage[c] = stage.HALF_OPEN
        listener_of(self.world, c).n_half += 1
        return c

    def connect(self, client: int) -> bool:
        """Let *client* complete its handshake; return whether the accept queue took it."""
        c = self.half_open(client)
        self.world.n_posted = 0
        return enters_queue(self.world, c)

    def accept(self) -> int | str:
        """Call accept: a descriptor, "EAGAIN" or "EMFILE"."""
        fd = sockets.accept(self.world, self.worker)
        return fd if fd >= 0 else "EAGAIN" if fd == NONE else "EMFILE"

    def accepted(self, client: int = 0) -> int:
        """Let *client* connect and be accepted; return its descriptor, not watched yet."""
        self.connect(client)
        self.tell()
        fd = self.accept()
        assert isinstance(fd, int)
        return fd

    def watched(self, client: int = 0, interest: int = READABLE) -> int:
        """Let *client* connect, be accepted and be watched; return its descriptor."""
        fd = self.accepted(client)
        self.do(self.mechanism.watch(self.world, self.worker, fd, interest))
        return fd

    def request(self, client: int = 0) -> None:
        """Let a whole request arrive."""
        self._handle(request_handled, client)

    def fin(self, client: int = 0) -> None:
        """Let a FIN arrive."""
        self._handle(fin_handled, client)

    def reset(self, client: int = 0) -> None:
        """Let a reset arrive."""
        self._handle(gone_handled, client)

    def _handle(self, handled: Callable[[Any, int], None], client: int) -> None:
        self.world.n_posted = 0
        handled(self.world, self.c(client))
        self.tell()

    def read(self, fd: int) -> int | str:
        """Read once: the bytes, 0 at the end, or "EAGAIN"."""
        found = sockets.read(self.world, fd)
        return {sockets.WHOLE_REQUEST: BYTES, sockets.END_OF_FILE: 0}.get(found, "EAGAIN")

    def write(self, fd: int) -> int | str:
        """Write a reply, or what fits of it; return the bytes, or "fails"."""
        n_bytes = sockets.writable_bytes(self.world, fd)
        left = sockets.write(self.world, fd, n_bytes)
        return "fails" if left == sockets.FAILED else n_bytes
