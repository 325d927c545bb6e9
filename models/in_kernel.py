"""A server inside the kernel: no way in and out, nothing declared and nothing fetched.

    NIC ──► callback of the socket ──► list of the server's thread ──► accept, read, write, close

It is the bound of what any interface between kernel and server can reach: what it saves is each
call's crossing, and all that telling and asking cost; packets, sockets and replies cost what they
cost anybody. Its thread sleeps and is woken like another.
Sources: TUX, as a reference in Gammo et al. 2004, §1; Joubert et al. 2001, "High-performance
memory-based web servers: kernel and user-space performance".
"""

from __future__ import annotations

from typing import NamedTuple

from ..sim.costs import CallCosts
from ..sim.mechanism import no_call_ns
from .epoll_level import EPOLL_LEVEL

_CALLS = ("accept_ns", "accept_again_ns", "read_ns", "read_again_ns", "write_ns", "close_ns")


class InKernelCosts(NamedTuple):
    """CPU time of a look at the list, of each entry that is taken, and of one looked at in vain.

    Nothing, unless somebody measures such a server: so it bounds what others may reach.
    """

    call_ns: int = 0
    event_ns: int = 0
    recheck_ns: int = 0


def without_crossing(call: CallCosts) -> CallCosts:
    """Return what is left of each call for a server that is in the kernel already."""
    left = {name: max(0, getattr(call, name) - call.crossing_ns) for name in _CALLS}
    return call._replace(**left, crossing_ns=0)


IN_KERNEL = EPOLL_LEVEL._replace(
    name="in_kernel",
    fds=0,
    watch_ns=no_call_ns,
    rewatch_ns=no_call_ns,
    unwatch_ns=no_call_ns,
    in_epoll=False,
    in_kernel=True,
)
