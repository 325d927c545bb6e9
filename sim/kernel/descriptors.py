"""The server's descriptor table: the lowest free number first, up to a limit.

The files of all processes together have a limit of their own.

Sources: POSIX.1-2017 §2.14 ("lowest numbered available"), Linux fs/file.c alloc_fd(),
fs/file_table.c alloc_empty_file().
"""

from __future__ import annotations

from ..state.columns import heap_pop, heap_push
from ..state.kinds import NONE
from ..state.world import World

FIRST_FD = 3
"""Standard input, output and error are open before the server is."""


def open_fd(world: World) -> int:
    """Return the lowest free descriptor, now taken, or NONE at the limit (EMFILE)."""
    if world.n_free > 0:
        fd = heap_pop(world.free_fds, world.n_free)
        world.n_free -= 1
    elif no_fd_left(world):
        return NONE
    else:
        fd = world.next_fd
        world.next_fd += 1
    return fd


def no_fd_left(world: World) -> bool:
    """Return whether the process has no free descriptor (EMFILE)."""
    return world.n_free == 0 and world.next_fd >= min(world.limits.fd_limit, len(world.state))


def no_file_left(world: World) -> bool:
    """Return whether all processes together may open no further file (ENFILE)."""
    files_max = world.kernel.files_max
    return (
        files_max > 0 and world.next_fd - world.n_free + world.kernel.files_elsewhere >= files_max
    )


def accept_fails(world: World) -> bool:
    """Return whether an accept would fail at once, even if a connection waits: EMFILE or ENFILE."""
    return no_fd_left(world) or no_file_left(world)


def touch_fd(world: World) -> None:
    """Take the lowest free descriptor and give it back: there is one."""
    if world.n_free == 0:
        heap_push(world.free_fds, 0, world.next_fd)
        world.n_free = 1
        world.next_fd += 1


def close_fd(world: World, fd: int) -> None:
    """Give *fd* back; the next open may get it at once."""
    assert world.watched_by[fd] == NONE
    heap_push(world.free_fds, world.n_free, fd)
    world.n_free += 1
    world.state[fd] = 0
    world.connection_of[fd] = NONE
