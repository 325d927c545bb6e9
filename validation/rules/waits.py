"""Scenes of waits: scans, epoll, signals, io_uring, and the order of wake-ups."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ...calibration.rules.asked import Value
from ...models.completions.io_uring import submit
from ...models.epoll.epoll_edge import wait_for_notices
from ...models.signals.signal_queue import dequeue, flush, queue_of
from ...sim.kernel.descriptors import close_fd, open_fd
from ...sim.state.kinds import READABLE, WRITABLE, count
from ...sim.state.program_settings import Sharing, Wakes
from .bench import BYTES, Bench, Scenes

SCENES = Scenes()
scene, scene_of_release = SCENES.scene, SCENES.scene_of_release

# ---- members that become ready, and waits ----

_SCRIPTS = {
    "select_order": ("select", "+312 W"),
    "select_level": ("select", "+0 n n -0 n"),
    "poll_order": ("poll", "x1 +352 W"),
    "poll_level": ("poll", "+0 n n -0 n"),
    "poll_all": ("poll", "+543210 W"),
    "epoll_level_order": ("epoll_level", "+312 w w"),
    "epoll_level_drained": ("epoll_level", "+012 w -1 w"),
    "epoll_full_batch": ("epoll_level", "+0123 w2 w2 w2"),
    "epoll_ready_after_full_batch": ("epoll_level", "+012 w2 +3 w2 w"),
    "epoll_mod_listed": ("epoll_level", "+012 m0 w"),
    "epoll_del_listed": ("epoll_level", "+012 x1 w"),
    "epoll_close_listed": ("epoll_close", "+012 x1 w"),
    "epoll_oneshot": ("epoll_oneshot", "+0 n +0 n m0 n"),
    "epoll_oneshot_rearmed": ("epoll_oneshot", "+012 w1 m0 w"),
    "epoll_edge_once": ("epoll_edge", "+0 e e +0 e"),
    "epoll_edge_two_arrivals": ("epoll_edge", "+00 e e"),
}
"""The mechanism of each rule, which watches six members for reading, and its script."""


def _play(mechanism: str, script: str) -> list[Value]:
    """Return the results of the waits of a *script*.

    +312: data arrives for members 3, 1 and 2; -1: member 1 is read until empty; x1: it is no longer
    watched; m0: it is watched for reading again (EPOLL_CTL_MOD); w, w2: a wait for all, for at most
    two; W: the same as part of one list; n: number that a wait reports; e: that of an
    edge-triggered wait.
    """
    bench = Bench(mechanism, members=6)
    found: list[Value] = []
    for word in script.split():
        step, numbers = word[0], [int(digit) for digit in word[1:]]
        match step:
            case "+":
                bench.arrive(*numbers)
            case "-":
                bench.drain(*numbers)
            case "x":
                bench.unwatch(*numbers)
            case "m":
                bench.rewatch(*numbers)
            case "w":
                found.append(list(bench.wait(*numbers)))
            case "W":
                found += bench.wait()
            case "n":
                found.append(len(bench.wait()))
            case "e":
                found.append(_notices(bench))
    return found


def _notices(bench: Bench) -> int:
    """Return the number of events that one edge-triggered epoll_wait reports."""
    bench.do(wait_for_notices(bench.world, bench.worker, False))
    return bench.worker.n_notices


for _rule, (_mechanism, _script) in _SCRIPTS.items():
    scene(_rule)(functools.partial(_play, _mechanism, _script))

scene("epoll_edge_drained")(lambda: _play("epoll_edge", "+0 -0 e")[0])

# ---- scans ----


@scene("select_beyond_1024")
def _select_beyond() -> Value:
    bench = Bench("select", members=3000)
    bench.arrive(2999)
    found = bench.wait()
    return [len(found), found == [2999]]


@scene("poll_listener")
def _poll_listener() -> Value:
    bench = Bench("poll")
    bench.connect(0)
    bench.connect(1)
    bench.tell()
    found = []
    for _ in range(3):
        found.append(len(bench.wait()))
        bench.accept()
    return found


def _registered(ready: int, *, busy: bool) -> int:
    """Return the wait-queue entries of a poll of 512 descriptors, one of them *ready*."""
    bench = Bench("poll", members=512, busy=busy)
    bench.arrive(ready)
    bench.wait()
    return bench.world.counts[count.REGISTERED]


@scene("poll_registers_before_ready")
def _poll_registers() -> Value:
    return _registered(511, busy=False) > _registered(0, busy=False)


@scene("poll_no_wait_registers_none")
def _poll_no_wait() -> Value:
    return _registered(511, busy=False) > _registered(511, busy=True)


def _ends_waits(mechanism: str, end: Callable[[Bench], None]) -> Value:
    """Return whether an end wakes a wait to read, and a wait to write with a full send buffer."""
    found: list[Value] = []
    for interest in (READABLE, WRITABLE):
        bench = Bench(mechanism)
        fd = bench.watched(interest=interest)
        bench.world.state[fd] &= ~WRITABLE
        bench.wait()  # the ready list still has an entry for the earlier room
        end(bench)
        found.append(len(bench.wait()) > 0)
    return found


scene("select_after_reset")(lambda: _ends_waits("select", Bench.reset))
scene("poll_after_fin")(lambda: _ends_waits("poll", Bench.fin))
scene("poll_after_reset")(lambda: _ends_waits("poll", Bench.reset))
scene("epoll_after_fin")(lambda: _ends_waits("epoll_level", Bench.fin))
scene("epoll_after_reset")(lambda: _ends_waits("epoll_level", Bench.reset))

# ---- epoll ----


@scene("epoll_ready_during_scan")
def _during_scan() -> Value:
    bench = Bench(members=6)
    bench.arrive(0, 1)
    # The second step is the time of the batch: the batch is fixed, and the call goes on.
    steps = iter(bench.mechanism.wait(bench.world, bench.worker))
    next(steps)
    next(steps)
    bench.arrive(3, 2)
    bench.do(steps)
    return [bench.worker.n_events, bench.wait()]


@scene("epoll_mod_to_ready")
def _mod_to_ready() -> Value:
    bench = Bench(members=6)
    bench.world.state[bench.fd(0)] &= ~WRITABLE
    bench.rewatch(0, WRITABLE)
    bench.arrive(0, 1, 2)
    first = bench.wait()
    bench.rewatch(0)
    return [first, bench.wait()]


@scene("epoll_add_ready")
def _add_ready() -> Value:
    bench = Bench()
    fds = [bench.accepted(client) for client in range(3)]
    for fd in fds:
        bench.world.state[fd] |= READABLE
    for client in (2, 0):
        bench.do(bench.mechanism.watch(bench.world, bench.worker, fds[client], READABLE))
    return [bench.wait()]


@scene("epoll_oneshot_reset")
def _oneshot_reset() -> Value:
    bench = Bench("epoll_oneshot")
    fd = bench.watched()
    bench.request()
    bench.wait()
    bench.reset()
    before = len(bench.wait())
    bench.do(bench.mechanism.rewatch(bench.world, bench.worker, fd, READABLE))
    return [before, len(bench.wait())]


@scene("epoll_edge_both")
def _edge_both() -> Value:
    bench = Bench("epoll_edge", members=1)
    bench.interests.own.readiness.known[bench.fd(0)] = 0
    bench.arrive(0)
    _notices(bench)
    known = bench.interests.own.readiness.known[bench.fd(0)]
    return [bool(known & READABLE), bool(known & WRITABLE)]


def _herd(wakes: Wakes = Wakes.USUAL) -> Bench:
    return Bench(workers=4, wakes=int(wakes))


@scene("epoll_herd_order")
def _herd_order() -> Value:
    bench = _herd()
    bench.connect(0)
    listeners = [worker.listener_fd for worker in bench.world.workers]
    return [[listeners.index(fd) for fd in bench.world.posted[: bench.world.n_posted]]]


def _woken(wakes: Wakes) -> Value:
    bench = _herd(wakes)
    list(bench.sleepers())
    bench.connect(0)
    return bench.tell()


scene("epoll_herd_wakes")(lambda: _woken(Wakes.USUAL))
scene("epoll_exclusive_wakes")(lambda: _woken(Wakes.ONE))


@scene("epoll_exclusive_nobody_waits")
def _nobody_waits() -> Value:
    bench = _herd(Wakes.ONE)
    bench.connect(0)
    bench.tell()
    found = []
    for worker in bench.world.workers:
        bench.do(bench.mechanism.wait(bench.world, worker))
        found.append(worker.n_events)
    return found


# ---- order of wake-ups ----


@scene("wake_one_set")
def _wake_one_set() -> Value:
    bench = Bench("epoll_oneshot", members=4, workers=4, sharing=int(Sharing.READY_LIST))
    list(bench.sleepers())
    return [number for member in range(4) for number in _newly_woken(bench, member)]


def _newly_woken(bench: Bench, member: int) -> list[int]:
    before = [worker.woken for worker in bench.world.workers]
    bench.arrive(member)
    after = [worker.woken for worker in bench.world.workers]
    return [i for i in range(len(after)) if after[i] and not before[i]]


def _wakes_by_connections(bench: Bench, n: int) -> Value:
    """Return the workers that *n* connections wake, in order."""
    found: list[Value] = []
    for client in range(n):
        before = [worker.woken for worker in bench.world.workers]
        bench.connect(client)
        bench.tell()
        after = [worker.woken for worker in bench.world.workers]
        found += [i for i in range(len(after)) if after[i] and not before[i]]
        bench.accept()
    return found


@scene("wake_exclusive")
def _wake_exclusive() -> Value:
    bench = _herd(Wakes.ONE)
    list(bench.sleepers())
    return _wakes_by_connections(bench, 2)


@scene("wake_accept")
def _wake_accept() -> Value:
    return _wakes_by_connections(Bench("blocking", workers=4), 4)


# ---- signals ----


def _queued(bench: Bench) -> list[Value]:
    """Take all queued signals: SIGIO first, then members; the listener is 0."""
    queue = queue_of(bench.interests)
    found: list[Value] = ["SIGIO"] if queue.sigio else []
    queue.sigio = False
    while (entry := dequeue(queue)) >= 0:
        found.append(max(0, bench.member(queue.fds[entry])))
    return found


def _signals(*arrivals: int, room: int = 100, elsewhere: int = 0) -> list[Value]:
    bench = Bench("rt_signals", members=6, signal_queue=room, signals_elsewhere=elsewhere)
    bench.arrive(*arrivals)
    return _queued(bench)


def _by_numbers(mechanism: str) -> Bench:
    """Return a bench whose even members have the lower of two signal numbers."""
    bench = Bench(mechanism, members=5, signal_queue=100, signal_numbers=2)
    shift = bench.fd(0) % 2
    bench.arrive(*(member + shift for member in (3, 1, 2, 0)))
    return bench


@scene("signal_order_of_numbers")
def _order_of_numbers() -> Value:
    bench = _by_numbers("rt_signals")
    return [found - bench.fd(0) % 2 for found in _queued(bench) if isinstance(found, int)]


@scene("signalfd_batch")
def _signalfd_batch() -> Value:
    bench = _by_numbers("signalfd")
    # The listener was accepted from until EAGAIN.
    bench.mechanism.blocked(bench.world, bench.interests, bench.worker.listener_fd, READABLE)
    return [found - bench.fd(0) % 2 for found in bench.wait()]


scene("signal_order_within_number")(lambda: _signals(3, 1, 2))
scene("signal_for_each_event")(lambda: _signals(0, 1, 0))
scene("signal_overflow")(lambda: _signals(0, 1, 2, 3, 4, 5, room=4))
scene("signal_held_elsewhere")(lambda: _signals(0, 1, 2, room=4, elsewhere=3))


@scene("signal_overflow_again")
def _overflow_again() -> Value:
    bench = Bench("rt_signals", members=6, signal_queue=1)
    bench.arrive(0, 1, 2)
    first = _queued(bench)
    bench.arrive(3)
    return [first, _queued(bench)]


@scene("signal_sigio_holds_entry")
def _sigio_holds_entry() -> Value:
    bench = Bench("rt_signals", members=6, signal_queue=2)
    bench.arrive(0, 1, 2)
    dequeue(queue_of(bench.interests))
    bench.arrive(3)
    return _queued(bench)


@scene("signal_stale_entry")
def _stale_entry() -> Value:
    bench = Bench("rt_signals", members=1)
    bench.arrive(0)
    fd = bench.fd(0)
    bench.unwatch(0)
    close_fd(bench.world, fd)
    queue = queue_of(bench.interests)
    same = open_fd(bench.world) == fd
    return [same, queue.fds[dequeue(queue)] == fd]


@scene("signal_before_armed")
def _before_armed() -> Value:
    bench = Bench("rt_signals")
    fd = bench.accepted()
    _queued(bench)  # the listener's own
    bench.world.state[fd] |= READABLE
    bench.do(bench.mechanism.watch(bench.world, bench.worker, fd, READABLE))
    return _queued(bench)


def _band(happens: Callable[[Bench], None]) -> Value:
    bench = Bench("rt_signals")
    bench.watched()
    _queued(bench)
    happens(bench)
    queue = queue_of(bench.interests)
    what = queue.what[dequeue(queue)]
    return [bool(what & READABLE), bool(what & WRITABLE)]


scene("signal_after_data")(lambda: _band(Bench.request))
scene("signal_after_fin")(lambda: _band(Bench.fin))
scene("signal_after_reset")(lambda: _band(Bench.reset))


@scene("signal_of_listener")
def _of_listener() -> Value:
    bench = Bench("rt_signals")
    for client in range(2):
        bench.connect(client)
        bench.tell()
    return _queued(bench)


@scene("signal_flush")
def _flush() -> Value:
    bench = Bench("rt_signals", members=6, signal_queue=4)
    bench.arrive(0, 1, 2, 3, 4, 5)
    flush(queue_of(bench.interests))
    return _queued(bench)


# ---- io_uring ----


def _submitted(bench: Bench, *fds: int) -> list[int]:
    """Submit the next operations of *fds*, call once, and return the descriptors it reports."""
    for fd in fds:
        submit(bench.worker, fd)
    return bench.wait()


@scene("ring_receive_ready")
def _receive_ready() -> Value:
    bench = Bench("io_uring")
    fd = bench.accepted()
    bench.request()
    return len(_submitted(bench, fd))


@scene("ring_receive_armed")
def _receive_armed() -> Value:
    bench = Bench("io_uring", members=1)
    ring = bench.interests.own
    found = [ring.n_done]
    bench.arrive(0)
    return [*found, ring.n_done, len(bench.wait())]


@scene_of_release("ring_order")
def _ring_order(release: str) -> Value:
    bench = Bench("io_uring", members=4, release=release)
    bench.arrive(3, 1, 2)
    return bench.wait()


@scene_of_release("ring_at_once")
def _at_once(release: str) -> Value:
    bench = Bench("io_uring", members=50, release=release)
    bench.arrive(*range(50))
    found: list[int] = []
    while sum(found) < 50:
        found.append(len(bench.wait()))
    return found


@scene("ring_send_after_reset", "ring_link_broken")
def _send_after_reset() -> Value:
    bench = Bench("io_uring")
    fd = bench.accepted()
    bench.request()
    _submitted(bench, fd)
    bench.reset()
    n_before = bench.world.counts[count.REPLIES]
    completed = _submitted(bench, fd)
    failed = bench.world.counts[count.REPLIES] == n_before
    return ["fails" if failed else BYTES for _ in completed]


@scene("ring_receive_after_reset")
def _receive_after_reset() -> Value:
    bench = Bench("io_uring")
    fd = bench.accepted()
    bench.request()
    bench.reset()
    _submitted(bench, fd)
    # The server sees a request to reply to, or an end.
    first = BYTES if bench.world.unsent[bench.c(0)] > 0 else 0
    return [first, bench.read(fd)]


def _accepts(bench: Bench) -> list[Value]:
    """Return the completions of one call with an armed accept."""
    completed = bench.wait()
    words = (
        ("accepted", "more") if member >= 0 else ("EMFILE", "the last") for member in completed
    )
    return [word for pair in words for word in pair]


@scene("ring_accept")
def _ring_accept() -> Value:
    bench = Bench("io_uring")
    found = []
    for clients in ((0, 1), (2,)):
        for client in clients:
            bench.connect(client)
            bench.tell()
        found += _accepts(bench)
    return found


@scene("ring_accept_at_limit")
def _ring_at_limit() -> Value:
    bench = _ring_with_limit(1)
    for client in range(2):
        bench.connect(client)
        bench.tell()
    return _accepts(bench)


@scene("ring_accept_empty_at_limit")
def _ring_empty_at_limit() -> Value:
    bench = _ring_with_limit(0)
    submit(bench.worker, bench.worker.listener_fd)
    return _accepts(bench)


def _ring_with_limit(n_more: int) -> Bench:
    bench = Bench("io_uring")
    bench.world.limits = bench.world.limits._replace(fd_limit=bench.world.next_fd + n_more)
    return bench
