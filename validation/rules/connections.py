"""Scenes of connections: begin, end, and TCP's timers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator
from typing import Any

import simpy

from ...calibration.rules.asked import Value, numbers_of
from ...models.catalogue import MECHANISMS
from ...sim.kernel import sockets
from ...sim.kernel.descriptors import close_fd, open_fd
from ...sim.state.client_settings import ClientSettings, Closing, NetworkSettings, PathSettings
from ...sim.state.kinds import (
    CLIENT_CLOSED,
    NONE,
    SERVER_RESET,
    SLEEP,
    WRITABLE,
    occurrence,
    stage,
)
from ...sim.state.mechanism import Program
from ...sim.state.units import MILLISECOND_NS, SECOND_NS
from ...sim.state.world import Worker, World
from ...sim.tcp.closing import TIME_WAIT_NS
from ...sim.tcp.handshake import syn_handled
from ...sim.tcp.listen_queue import drops_syn
from ...sim.tcp.windows import acked_handled, goes_in_flights
from ...sim.wire.retransmission import (
    data_retry_ns,
    sent_again,
)
from ...sim.wire.way import SEGMENT_BYTES
from .bench import BYTES, Bench, NullObserver, Scenes

SCENES = Scenes()
scene, scene_of_release = SCENES.scene, SCENES.scene_of_release

_FIN = ClientSettings(closing=int(Closing.FIN))
_AWAY = NetworkSettings(delay_ns=MILLISECOND_NS)
"""A link with a delay, so that a SYN-ACK is not acknowledged at once."""

# ---- reads and writes ----

_SCRIPTS = {
    "read_after_reset": "a r z R R R",
    "read_after_fin": "a r f R R R",
    "write_after_reset": "a r d z W",
    "serve_after_reset": "a r z R W",
    "accept_after_reset": "z A R",
    "accept_after_request_and_reset": "r z A R R",
    "accept_after_fin": "r f a R R",
}
"""The script of each rule: events of a connection in the accept queue, and calls."""


def _play(script: str) -> list[Value]:
    """Return the results of those calls of a *script* that are written in capitals.

    r, f, z: a request, a FIN, a reset arrives; a, A: accept; d, R: read; W: write the reply, if a
    request was read.
    """
    bench = Bench(client=_FIN)
    bench.connect(0)
    arrivals = {"r": bench.request, "f": bench.fin, "z": bench.reset}
    found: list[Value] = []
    fd: int | str = NONE
    for step in script.split():
        if step in arrivals:
            arrivals[step]()
            continue
        if step in "aA":
            fd = bench.accept()
        assert isinstance(fd, int)
        if step == "A":
            found.append(_say(fd))
        elif step == "d":
            bench.read(fd)
        elif step == "R":
            found.append(bench.read(fd))
        elif step == "W" and bench.world.unsent[bench.c(0)] > 0:
            found.append(bench.write(fd))
    return found


for _rule, _script in _SCRIPTS.items():
    scene(_rule)(functools.partial(_play, _script))


@scene("write_after_fin")
def _write_after_fin() -> Value:
    bench = Bench(client=_FIN)
    fd = bench.accepted()
    bench.request()
    bench.fin()
    bench.read(fd)
    written = bench.write(fd)
    replied = bench.world.reply_ns[bench.world.request_of[bench.c(0)]] != NONE
    return [written, BYTES if replied else 0]


@scene("write_full")
def _write_full() -> Value:
    bench = Bench(reply_bytes=200_000, send_buffer_bytes=100_000)
    fd = bench.accepted()
    bench.request()
    bench.read(fd)
    written = bench.write(fd)
    is_short = isinstance(written, int) and written < 200_000
    takes_no_more = bench.world.state[fd] & WRITABLE == 0
    return [is_short, "EAGAIN" if takes_no_more else sockets.writable_bytes(bench.world, fd)]


@scene("write_room")
def _write_room() -> Value:
    buffer_bytes = 1 << 20
    bench = _replying(4 * buffer_bytes, send_buffer_bytes=buffer_bytes)
    c, fd, n_acked = bench.c(0), bench.world.fd_of[bench.c(0)], 0
    while bench.world.state[fd] & WRITABLE == 0:
        n_acked += bench.world.under_way[c]
        acked_handled(bench.world, c)
    return 5 * n_acked > buffer_bytes


# ---- accept and close ----


def _say(found: int | str) -> str:
    return "accepted" if isinstance(found, int) else found


@scene("accept_empty")
def _accept_empty() -> Value:
    return _say(Bench().accept())


@scene("accept_empty_at_limit")
def _empty_at_limit() -> Value:
    return _say(_with_limit(0).accept())


def _with_limit(n_more: int) -> Bench:
    bench = Bench()
    bench.world.limits = bench.world.limits._replace(fd_limit=bench.world.next_fd + n_more)
    return bench


@scene("accept_at_limit")
def _at_limit() -> Value:
    bench = _with_limit(1)
    bench.connect(0)
    bench.connect(1)
    first = bench.accept()
    second = bench.accept()
    if isinstance(first, int):
        sockets.close(bench.world, bench.worker, first)
    return [_say(found) for found in (first, second, bench.accept())]


@scene("accept_order")
def _accept_order() -> Value:
    bench = Bench()
    for client in range(3):
        bench.connect(client)
    fds = [bench.accept() for _ in range(3)]
    return [bench.member(fd) for fd in fds if isinstance(fd, int)]


def _closes(*, reads: bool = False, lingers: bool = False) -> Value:
    """Return the result of the client's read when the server closes."""
    bench = Bench(client=_FIN)
    fd = bench.accepted()
    if not lingers:
        bench.request()
    if reads:
        bench.read(fd)
    if lingers:
        sockets.shed(bench.world, fd)
    sockets.close(bench.world, bench.worker, fd)
    return ["ECONNRESET" if bench.world.ending[bench.c(0)] & SERVER_RESET else 0]


scene("close_unread")(_closes)
scene("close_all_read")(lambda: _closes(reads=True))
scene("close_lingering")(lambda: _closes(lingers=True))


@scene("data_after_reset")
def _data_after_reset() -> Value:
    bench = Bench()
    fd = bench.accepted()
    bench.request()
    sockets.close(bench.world, bench.worker, fd)
    n_resets = _resets(bench)
    bench.request()
    return "a reset" if _resets(bench) > n_resets else "none"


def _resets(bench: Bench) -> int:
    return sum(entry[2] == occurrence.RST for entry in bench.world.calendar.entries)


@scene("lowest_descriptor")
def _lowest_descriptor() -> Value:
    world = Bench().world
    fds = [open_fd(world) for _ in range(3)]
    close_fd(world, fds[2])
    close_fd(world, fds[0])
    return [fds.index(open_fd(world)) for _ in range(2)]


# ---- handshakes ----


def _never_accepts(world: World, worker: Worker) -> Iterator[int]:
    while True:
        yield SLEEP


_IDLER = Program(_never_accepts, MECHANISMS["epoll_level"])


class _Times(NullObserver):
    """Observer of the arrival times of packets of one kind on one connection, in seconds."""

    def __init__(self, kind: int, c: int) -> None:
        self._of = (kind, c)
        self.at_ns: list[int] = []

    def happened(self, world: World, kind: int, subject: int) -> None:
        if (kind, subject) == self._of:
            self.at_ns.append(world.now_ns)

    def after_first(self, seconds: int) -> Value:
        """Return the times after the first packet, up to *seconds*."""
        after = [(at_ns - self.at_ns[0]) // SECOND_NS for at_ns in self.at_ns[1:]]
        return [at for at in after if at < seconds]


@scene("backlog")
def _backlog() -> Value:
    bench = Bench(backlog=1)
    return sum(bench.connect(client) for client in range(5))


@scene("backlog_bound")
def _backlog_bound() -> Value:
    bench = Bench(backlog=65_535, clients=5_000)
    return not all(bench.connect(client) for client in range(5_000))


@scene("syn_to_full_queue")
def _syn_to_full_queue() -> Value:
    bench = Bench(backlog=1)
    for client in range(2):
        bench.connect(client)
    dropped = drops_syn(bench.world, bench.worker.listener) and not bench.world.limits.refuse
    return "nothing" if dropped else "an answer"


def _half_open(backlog: int) -> Value:
    """Return the later number of half-open connections, of 8 that find room for 2."""
    found: list[Value] = []

    def look(env: simpy.Environment, world: World) -> None:
        def looks() -> Generator[simpy.Event, None, None]:
            for second in (2, 10, 40, 70):
                yield env.timeout((1 + second) * SECOND_NS - env.now)
                found.append(world.listeners[0].n_half)

        env.process(looks())

    first = backlog - 1
    at_ns = [0] * first + [SECOND_NS] * 8
    Bench(
        clients=len(at_ns),
        at_ns=at_ns,
        network=_AWAY,
        program=_IDLER,
        extend=look,
        backlog=backlog,
    ).run()
    return found


scene("half_open_pruned")(lambda: _half_open(7))
scene("half_open_expires")(lambda: _half_open(40))


@scene("syn_ack_times")
def _syn_ack_times() -> Value:
    # The second of two simultaneous clients finds the queue full. It acknowledges each SYN-ACK,
    # and sends no request.
    times = _Times(occurrence.ACK, 2)
    at_ns = (0, SECOND_NS, SECOND_NS)
    bench = Bench(clients=3, at_ns=at_ns, network=_AWAY, program=_IDLER, observe=times, backlog=1)
    bench.world.requests[2] = 0
    bench.run()
    return times.after_first(66)


def _entries(*, syn_cookies: bool, backlog: int = 4, clients: int = 8) -> Bench:
    """Return a bench after the SYNs of *clients*."""
    bench = Bench(network=_AWAY, backlog=backlog, clients=clients, syn_cookies=syn_cookies)
    for client in range(clients):
        syn_handled(bench.world, bench.c(client), 0)
    return bench


def _answers(bench: Bench) -> Value:
    answered = (stage.HALF_OPEN, stage.BY_COOKIE)
    n_answers = sum(found in answered for found in bench.world.stage)
    return [n_answers, bench.worker.listener.n_half]


scene("half_open_with_cookies")(lambda: _answers(_entries(syn_cookies=True)))
scene("half_open_without_cookies")(lambda: _answers(_entries(syn_cookies=False)))
scene("half_open_of_max_syn_backlog")(
    lambda: _answers(_entries(syn_cookies=False, backlog=100, clients=20))
)


@scene("cookie_not_repeated")
def _cookie_times() -> Value:
    bench = _entries(syn_cookies=True)
    assert bench.world.stage[7] == stage.BY_COOKIE
    sent_again(bench.world, occurrence.ACK, bench.c(7))  # the ACK was lost: it has no timer
    entries = bench.world.calendar.entries
    return [int(entry[0]) // SECOND_NS for entry in entries if entry[2] == occurrence.SYN_ACK_TIMER]


@scene_of_release("syn_times")
def _syn_times(release: str) -> Value:
    times = _Times(occurrence.SYN, 2)
    client = ClientSettings(linear_syn_timeouts=4 if numbers_of(release) >= (6, 5) else 0)
    at_ns = (0, 0, SECOND_NS)
    Bench(
        clients=3,
        at_ns=at_ns,
        client=client,
        network=_AWAY,
        program=_IDLER,
        observe=times,
        backlog=1,
    ).run()
    return times.after_first(22)


# ---- data, acknowledgements and windows ----


def _pauses(seconds: int) -> Value:
    """Return the first pause before data is resent, in 0.1 s, and the factors of the others."""
    bench = Bench()
    found: list[Value] = []
    at_ns, before_ns = 0, SECOND_NS // 10
    for tries in range(20):
        pause_ns = data_retry_ns(bench.world, bench.c(0), tries)
        at_ns += pause_ns
        if at_ns < seconds * SECOND_NS:
            found.append(round(pause_ns / before_ns))
        before_ns = pause_ns
    return found


scene("data_times")(lambda: _pauses(29))
scene("fin_times")(lambda: _pauses(4))


@scene("reset_not_repeated")
def _reset_repeated() -> Value:
    bench = Bench()
    sent_again(bench.world, occurrence.GONE, bench.c(0))
    entries = bench.world.calendar.entries
    return [int(entry[0]) // SECOND_NS for entry in entries if entry[2] == occurrence.GONE]


def _conversing() -> Bench:
    """Return a bench after a request with an immediate reply; another one may follow."""
    bench = Bench()
    fd = bench.accepted()
    bench.world.left[bench.c(0)] = 2
    bench.request()
    bench.read(fd)
    bench.write(fd)
    return bench


def _held_ms(make: Callable[[], Bench]) -> Value:
    """Return the time after which a reply no longer carries its request's acknowledgement."""
    held_ms = 0
    while held_ms < 1000:
        bench = make()
        c = bench.c(0)
        bench.request()
        is_held = bench.world.converses[c]
        bench.read(bench.world.fd_of[c])
        bench.world.now_ns += held_ms * MILLISECOND_NS
        bench.write(bench.world.fd_of[c])
        if not is_held or not bench.world.converses[c]:
            break
        held_ms += 1
    return held_ms


def _accepted() -> Bench:
    bench = Bench()
    bench.accepted()
    return bench


scene("ack_of_first_request")(lambda: _held_ms(_accepted))
scene("ack_of_later_request")(lambda: _held_ms(_conversing))


@scene("ack_with_reply", declared=True)
def _ack_with_reply() -> Value:
    bench = _conversing()
    return 1 if bench.world.converses[bench.c(0)] else 2


def _replying(reply_bytes: int, loss_millionths: int = 0, **server: Any) -> Bench:
    """Return a bench on which a server has written a reply that takes several flights."""
    paths = (PathSettings(1000, loss_millionths=loss_millionths),) if loss_millionths else ()
    network = NetworkSettings(window_segments=10, paths=paths)
    bench = Bench(reply_bytes=reply_bytes, network=network, **server)
    fd = bench.accepted()
    bench.request()
    bench.read(fd)
    bench.write(fd)
    return bench


def _window(bench: Bench) -> int:
    return bench.world.network.window_segments + bench.world.window_grown[bench.c(0)]


@scene("window_grows")
def _window_grows() -> Value:
    bench = _replying(1000 * SEGMENT_BYTES, send_buffer_bytes=1 << 21)
    found: list[Value] = []
    for _ in range(3):
        found.append(bench.world.under_way[bench.c(0)] // SEGMENT_BYTES)
        acked_handled(bench.world, bench.c(0))
    return found


@scene("window_after_idleness")
def _window_after_idleness() -> Value:
    bench = _replying(30 * SEGMENT_BYTES)
    world, c = bench.world, bench.c(0)
    for _ in range(2):
        acked_handled(world, c)
    before = _window(bench)
    world.now_ns += data_retry_ns(world, c, 0) * 3 // 2
    goes_in_flights(world, c, BYTES)
    return [before, _window(bench)]


@scene("window_after_loss")
def _window_after_loss() -> Value:
    bench = _replying(10 * SEGMENT_BYTES + 1, loss_millionths=999_999)
    return [_window(bench), bench.world.slow_until[bench.c(0)]]


def _closed(*, server_first: bool) -> World:
    bench = Bench(client=_FIN)
    fd = bench.accepted()
    bench.world.ending[bench.c(0)] |= CLIENT_CLOSED
    if not server_first:
        bench.fin()
    sockets.close(bench.world, bench.worker, fd)
    if server_first:
        bench.fin()
    return bench.world


@scene("time_wait", declared=True)
def _time_wait() -> Value:
    return TIME_WAIT_NS // SECOND_NS * _closed(server_first=True).n_time_wait


@scene("client_closes_first")
def _client_closes_first() -> Value:
    return _closed(server_first=False).n_time_wait
