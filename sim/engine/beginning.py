"""The start of a run: open listeners, connected idle clients, the first clients due.

descriptors   0 1 2 │ listener, mechanism of each worker │ backend │ idle connections │ free ...
"""

from __future__ import annotations

from collections.abc import Callable

from ..clients.classes import first_class
from ..clients.clients import idle_life, plan_arrival, user_is_due
from ..clients.kept import begin_kept
from ..cpu.gaps import plan_gaps
from ..cpu.scheduling import boot
from ..kernel.backend_connections import free
from ..kernel.descriptors import FIRST_FD, open_fd
from ..kernel.handing_over import FDS_OF_SIBLING, hands_over, is_sibling, open_eventfd
from ..kernel.request_timeouts import have_waited, open_timer
from ..state.columns import fill, fill_range
from ..state.event_calendar import schedule
from ..state.kinds import NONE, READABLE, WRITABLE, count, occurrence, stage
from ..state.mechanism import Mechanism, Program
from ..state.world import Worker, World
from .disturbances import begin_flood, plan_faults
from .other_threads import begin_others


def beginning(program: Program) -> Callable[[World, int], None]:
    """Return the function (world, warm_up_ns) that brings a world to time 0."""
    mechanism = program.mechanism
    own_fds, watch = mechanism.fds, mechanism.watch
    has_timer = not mechanism.one_at_a_time
    watch_idle, listens = mechanism.watch_idle, not program.calls
    connect_backend = _connecting_backend(mechanism)

    def begin(world: World, warm_up_ns: int) -> None:
        world.next_fd = FIRST_FD
        for i in range(len(world.workers)):
            worker = world.workers[i]
            if is_sibling(world, worker.number):
                _join(world, worker)
            elif listens:
                _listen(world, worker)
            else:
                for _ in range(own_fds):
                    open_fd(world)
            boot(world, worker)
        _begin_cpus(world)
        connect_backend(world)
        _connect_all(world)
        begin_flood(world)
        plan_faults(world)
        plan_gaps(world)
        _begin_measuring(world, warm_up_ns)
        if listens:
            _begin_clients(world)

    def _listen(world: World, worker: Worker) -> None:
        """Have *worker* watch its listener, and the timer of its set."""
        _open_listener(world, worker)
        if world.watched_by[worker.listener_fd] == NONE:
            for _ in range(own_fds):
                open_fd(world)
            for _ in watch(world, worker, worker.listener_fd, READABLE):
                pass  # before time 0 no call costs anything
            if has_timer and world.program.request_timeout_ns > 0:
                for _ in watch(world, worker, open_timer(world, worker), READABLE):
                    pass

    def _connect_all(world: World) -> None:
        """Connect the idle clients, and the connections that clients keep."""
        _divide(world, _accept_all(world, 0, world.n_idle), world.n_idle)
        if world.client.idle_life_ns > 0:
            for c in range(world.n_idle):
                schedule(world, idle_life(world, c), occurrence.IDLE_CLOSE, c)
        if world.is_kept:
            n = world.n_users
            _divide(world, _accept_all(world, world.n_idle, n), n)
            begin_kept(world, _n_sets(world))

    def _divide(world: World, first_fd: int, n: int) -> None:
        """Divide *n* descriptors among the sets, in whole ranges: a million cost little."""
        first_set, n_sets = _first_set(world), _n_sets(world)
        for i in range(n_sets):
            low, high = first_fd + n * i // n_sets, first_fd + n * (i + 1) // n_sets
            interests = world.sets[first_set + i]
            fill(world.watched_by, low, high, interests.number)
            interests.n_watched += high - low
            watch_idle(world, interests, low, high)

    return begin


def _connecting_backend(mechanism: Mechanism) -> Callable[[World], None]:
    """Return the function (world) that makes each set watch connections to the backend."""
    watch = mechanism.watch

    def connect_backend(world: World) -> None:
        """Divide the connections among the sets that have clients; all are free."""
        n, first_set, n_sets = world.backend.connections, _first_set(world), _n_sets(world)
        world.first_backend_fd = world.next_fd
        for i in range(n_sets):
            worker = world.workers[first_set + i]
            low, high = n * i // n_sets, n * (i + 1) // n_sets
            for _ in range(low, high):
                for _ in watch(world, worker, open_fd(world), READABLE):
                    pass
            for j in range(high - low):
                free(world, worker.interests.number, high - 1 - j)

    return connect_backend


def _first_set(world: World) -> int:
    """Return the number of the first set with connections: a listening thread's has none."""
    return 1 if hands_over(world) else 0


def _n_sets(world: World) -> int:
    """Return how many sets have connections."""
    return len(world.sets) - world.n_siblings - _first_set(world)


def _join(world: World, sibling: Worker) -> None:
    """Give *sibling* and its worker the ends of a UNIX socket; they share all other descriptors."""
    worker = world.workers[sibling.number - world.n_siblings]
    sibling.listener_fd = worker.listener_fd
    sibling.interests.timer_fd = worker.interests.timer_fd
    for _ in range(FDS_OF_SIBLING):
        open_fd(world)


def _open_listener(world: World, worker: Worker) -> None:
    """Give *worker* the descriptor of its listener: one of its own, or the one that all share.

    A worker that does not accept has an eventfd instead, which notifies it of connections.
    """
    listener = worker.listener
    if hands_over(world) and worker.number > 0:
        open_eventfd(world, worker)
    elif listener.n_fds < len(listener.fds):
        worker.listener_fd = open_fd(world)
        world.listens_at[worker.listener_fd] = listener.number
        listener.fds[listener.n_fds] = worker.listener_fd
        listener.n_fds += 1
    else:
        # Threads that share a set share the descriptor that is in it, too.
        worker.listener_fd = listener.fds[0]


def _begin_cpus(world: World) -> None:
    """Start all other threads; a CPU without a thread is idle."""
    begin_others(world)
    for i in range(len(world.cpus)):
        world.cpus[i].idle = world.cpus[i].running == NONE


def _accept_all(world: World, first_c: int, n: int) -> int:
    """Have *n* connections be there, and accepted; return the first descriptor."""
    first_fd = world.next_fd
    world.next_fd += n
    end_fd = world.next_fd
    fill_range(world.fd_of, first_c, first_c + n, first_fd)
    fill(world.stage, first_c, first_c + n, stage.ACCEPTED)
    fill_range(world.connection_of, first_fd, end_fd, first_c)
    fill(world.state, first_fd, end_fd, WRITABLE)
    fill(world.interest, first_fd, end_fd, READABLE)
    have_waited(world, first_fd, end_fd)
    world.counts[count.CONNECTIONS_OPEN] += n
    return first_fd


def _begin_measuring(world: World, warm_up_ns: int) -> None:
    """Plan the measured window, and the first sample of queue lengths."""
    if warm_up_ns > 0:
        schedule(world, warm_up_ns, occurrence.MARK, NONE)
    if world.sample_every_ns > 0:
        schedule(world, 0, occurrence.SAMPLE, NONE)


def _begin_clients(world: World) -> None:
    """Plan the first arrival of an open loop, or the first connection of each user."""
    if world.is_kept:
        return
    if world.n_users == 0:
        plan_arrival(world)
    for i in range(min(world.n_users, (world.end_row - world.next_row) // world.rows_each)):
        at_ns = world.at_ns[world.next_row + i * world.rows_each]
        user_is_due(world, at_ns, first_class(world, i))
