"""The current kernel memory of the server's connections, interests, signals and threads.

    sockets     half open, queued, accepted      watches    epoll items, arrays of select and poll,
    buffers     requests not yet read, replies              armed descriptors, queued signals
                not yet acknowledged             threads    stacks, and what a kernel keeps of them
    TIME_WAIT   connections that the server closed first

Numbers are multiplied by costs that a bench has measured. An array of select or poll is counted
between calls, too, as if a call slept. kqueue, get_next_event and a server in the kernel have the
cost of an epoll item; a set of /dev/poll and a submitted call have none, as no bench measures them.

Sources: sim/state/memory_settings.py; calibration/c/memory/.
"""

from __future__ import annotations

from ..state.family_settings import Threads
from ..state.kinds import count
from ..state.units import KIB
from ..state.world import World


def sockets_bytes(world: World) -> int:
    """Return the memory of connections: half open, queued, accepted, or to the backend."""
    memory = world.memory
    n_open = world.counts[count.CONNECTIONS_OPEN] + world.backend.connections
    n_bytes = n_open * memory.socket_bytes
    for i in range(len(world.listeners)):
        n_bytes += world.listeners[i].n_half * memory.half_open_bytes
        n_bytes += world.listeners[i].n_queued * memory.queued_bytes
    return n_bytes


def buffers_bytes(world: World) -> int:
    """Return the memory of unread receive buffers and unacknowledged send buffers."""
    memory = world.memory
    return world.n_unread * memory.request_bytes + world.n_unacked * memory.reply_kib_bytes // KIB


def watches_bytes(world: World) -> int:
    """Return the memory of watched descriptors and of queued signals."""
    n_watched = 0
    for i in range(len(world.sets)):
        n_watched += world.sets[i].n_watched
    n_signals = world.counts[count.SIGNALS_QUEUED]
    return n_watched * world.watch_bytes + n_signals * world.memory.signal_bytes


def threads_bytes(world: World) -> int:
    """Return the memory of the server's threads: a pool, or one and one for each connection."""
    n = len(world.workers)
    if world.blocking.threads != Threads.POOL:
        n = 1 + world.counts[count.CONNECTIONS_OPEN]
    return n * world.memory.thread_bytes


def time_wait_bytes(world: World) -> int:
    """Return the memory of connections in TIME_WAIT."""
    return world.n_time_wait * world.memory.time_wait_bytes
