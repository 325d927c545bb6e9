"""Request time-outs: the server closes connections whose request is incomplete.

    event loop   timer ─► readable ─► walk the table of connections ─► close those that are late
    threads      read() ─► sleeps ─► its time is over (SO_RCVTIMEO) ─► close

An event loop scans all its connections periodically: it finds late ones up to a period after their
time, and the cost of a scan grows with the table. Its own descriptor wakes it, as of
timerfd_create(2); a time-out of the wait itself has the same effect. The time of a request counts
from the accept or the previous reply; parts of a request do not prolong it.

Sources: thttpd 2.29, thttpd.c idle() (a walk of all connections every 5 s, closed after 60 or 300);
lighttpd 1.4, connections.c connection_periodic_maint() (every second); Apache mod_reqtimeout (of
the whole header); socket(7), SO_RCVTIMEO; Provos and Lever 2000, §5 (inactive clients re-open).
"""

from __future__ import annotations

from ..cpu.interrupts import interrupt_cpu
from ..cpu.scheduling import wake
from ..state.event_calendar import post, schedule
from ..state.kinds import NEVER_NS, NO_CONNECTION, NONE, READABLE, occurrence
from ..state.world import InterestSet, Worker, World
from .descriptors import open_fd


def waits_for_request(world: World, fd: int) -> None:
    """Start the time of a request on *fd* now."""
    if world.program.request_timeout_ns > 0:
        world.since_ns[fd] = world.now_ns


def have_waited(world: World, first_fd: int, end_fd: int) -> None:
    """Start the times on a range of descriptors before the run, evenly spread."""
    timeout_ns = world.program.request_timeout_ns
    if timeout_ns > 0:
        for fd in range(first_fd, end_fd):
            world.since_ns[fd] = -(timeout_ns * (fd - first_fd) // (end_fd - first_fd))


def open_timer(world: World, worker: Worker) -> int:
    """Return the descriptor of a timer for the set of *worker*, which expires once a period."""
    fd = open_fd(world)
    worker.interests.timer_fd = fd
    _plan_expiry(world, worker, world.program.timeout_check_ns)
    return fd


def _plan_expiry(world: World, worker: Worker, at_ns: int) -> None:
    schedule(world, at_ns, occurrence.TIMER, NO_CONNECTION - worker.number)


def timer_expires(world: World, worker: Worker) -> None:
    """Let the clock interrupt the CPU of *worker*: its timer is readable, or its read is over."""
    interrupt_cpu(world, worker.cpu, 0, False)
    fd = worker.interests.timer_fd
    if fd == NONE:
        _read_is_over(world, worker)
    else:
        post(world, fd, READABLE)
        _plan_expiry(world, worker, world.now_ns + world.program.timeout_check_ns)


def take_expiry(world: World, interests: InterestSet) -> None:
    """Read the timer of a set: it is not readable until it expires again."""
    world.state[interests.timer_fd] = 0


def is_late(world: World, interests: InterestSet, fd: int) -> bool:
    """Return whether *fd* is of this set and its client has not sent a request in time."""
    c = world.connection_of[fd]
    if c == NONE or world.watched_by[fd] != interests.number:
        return False
    since_ns = world.since_ns[fd]
    return world.unsent[c] == 0 and world.now_ns - since_ns >= world.program.request_timeout_ns


def next_late(world: World, interests: InterestSet, fd: int) -> int:
    """Return the first descriptor from *fd* on that is late now, or the end of the table."""
    while fd < world.next_fd and not is_late(world, interests, fd):
        fd += 1
    return fd


def times_its_read(world: World, worker: Worker, fd: int) -> None:
    """Set the time-out of the read on *fd* in which *worker* is about to sleep."""
    if world.interest[fd] != READABLE or worker.timer_ns != NEVER_NS:
        return  # the timer of an earlier read goes off before, and is set anew
    worker.timer_ns = max(world.now_ns, world.since_ns[fd] + world.program.request_timeout_ns)
    _plan_expiry(world, worker, worker.timer_ns)


def _read_is_over(world: World, worker: Worker) -> None:
    """Wake *worker* if the time of the read that it sleeps in is over; if not, wait on."""
    worker.timer_ns = NEVER_NS
    if worker.n_events == 0:
        return
    fd = worker.event_fd[0]
    if world.interest[fd] != READABLE or world.state[fd] & READABLE != 0:
        return
    if world.now_ns - world.since_ns[fd] < world.program.request_timeout_ns:
        times_its_read(world, worker, fd)
    elif worker.blocked:  # otherwise it has read what came, and computes
        worker.timed_out = True
        wake(world, worker)


def was_in_vain(world: World, worker: Worker, fd: int) -> bool:
    """Return whether the read of *worker* on *fd* has ended because its time was over."""
    timed_out = worker.timed_out
    worker.timed_out = False
    return timed_out and world.state[fd] & READABLE == 0
