"""Which settings of a server go with which mechanism, and what a mechanism makes of them."""

from __future__ import annotations

from ..sim.build import check
from ..sim.mechanism import Mechanism, no_call_ns
from ..sim.settings import ClientSettings, RunSettings, ServerSettings, Sharing, Threads
from .catalogue import CATALOGUE
from .event_loop import event_loop

_OF_EVENT_LOOPS = (
    *("accept_limit", "listener_last", "read_after_accept"),
    "concurrency_tolerance_permille",
)
"""Settings of what an event loop does; elsewhere they must be what they are unset."""


def settings_for(mechanism: Mechanism, settings: RunSettings) -> RunSettings:
    """Return *settings* with the bounds that *mechanism* has.

    A descriptor that does not fit select's bitmap cannot be watched: for a server that checks, as
    it must, FD_SETSIZE is its descriptor limit. Threads whose stacks do not fit the address space
    cannot be begun.

    Raises
    ------
    ValueError
        If one is out of its range, or does not go with the mechanism or the idle population.
    """
    check(settings, mechanism.fds, in_calls=mechanism.in_calls)
    server = settings.server
    known = CATALOGUE.get(mechanism.name)
    if known and known.program is not event_loop:
        for name in _OF_EVENT_LOOPS:
            value = getattr(server, name)
            if value:
                raise ValueError(
                    f"{name} must be {type(value)()} with {mechanism.name}, which is no event "
                    f"loop, got {value}"
                )
    if mechanism.name == "select" and server.fd_setsize > 0:
        server = server._replace(fd_limit=min(server.fd_limit, server.fd_setsize))
    if mechanism.in_calls:
        server = _with_threads(mechanism.name, server, settings.client)
    elif server.threads != Threads.POOL:
        raise ValueError(
            f"threads must be {Threads.POOL!r} with {mechanism.name}: "
            "its workers are event loops, which serve many connections each"
        )
    if mechanism.in_epoll:
        _check_bounds(mechanism, server, settings.client)
    if server.workers > 1 and mechanism.name in CATALOGUE:
        _check_together(mechanism.name, server)
    return settings._replace(server=server)


def _check_together(name: str, server: ServerSettings) -> None:
    known = CATALOGUE[name]
    if server.sharing == Sharing.READY_LIST and not known.shares_ready_list:
        raise ValueError(
            f"sharing must not be {Sharing.READY_LIST!r} with {name}: "
            "its workers have no ready list in common"
        )
    if server.passes_listener and not known.passes_listener:
        raise ValueError(
            f"passes_listener must be false with {name}: only what signals has an owner (F_SETOWN)"
        )
    if server.passes_listener and server.sharing != Sharing.ACCEPT_QUEUE:
        raise ValueError(
            f"sharing must be {Sharing.ACCEPT_QUEUE!r} with passes_listener: there is one listener "
            f"to hand on, got {server.sharing}"
        )
    if server.wake_one and not known.wakes_one:
        raise ValueError(
            f"wake_one must be false with {name}: its wait wakes all who watch the listener"
        )


def _check_bounds(mechanism: Mechanism, server: ServerSettings, client: ClientSettings) -> None:
    n_sets = 1 if server.sharing == Sharing.READY_LIST else server.workers
    if 0 < server.epoll_instances < n_sets:
        raise ValueError(
            f"epoll_instances must be at least {n_sets}, one for each worker's epoll_create "
            f"(EMFILE), or 0, got {server.epoll_instances}"
        )
    if server.epoll_watches == 0:
        return
    if mechanism.watch_ns is no_call_ns:
        raise ValueError(
            f"epoll_watches must be 0 with {mechanism.name}, which tells of interests later and "
            f"does not hear of each whether it failed, got {server.epoll_watches}"
        )
    least = client.idle + n_sets
    if server.epoll_watches < least:
        raise ValueError(
            f"epoll_watches must be at least {least}, for listeners and idle connections (ENOSPC), "
            f"or 0, got {server.epoll_watches}"
        )


def threads_max(server: ServerSettings) -> int:
    """Return how many threads *server* can have at once; processes have a space each."""
    if server.address_space_bytes == 0 or server.threads == Threads.PROCESSES:
        return server.workers
    return min(server.workers, server.address_space_bytes // server.stack_bytes)


def _with_threads(name: str, server: ServerSettings, client: ClientSettings) -> ServerSettings:
    if server.busy:
        raise ValueError(f"busy must be false with {name}: its threads sleep in their calls")
    if server.sharing != Sharing.ACCEPT_QUEUE and server.workers > 1:
        raise ValueError(
            f"sharing must be {Sharing.ACCEPT_QUEUE!r} with {name}, got {server.sharing}"
        )
    if server.limiter_gain_permille > 0:
        raise ValueError(
            f"limiter_gain_permille must be 0 with {name}: no call tells of more than one event, "
            f"got {server.limiter_gain_permille}"
        )
    n = threads_max(server)
    pool = server.threads == Threads.POOL
    if pool and n < server.workers:
        raise ValueError(
            f"workers must be at most {n}, whose stacks of {server.stack_bytes} bytes fit "
            f"address_space_bytes ({server.address_space_bytes}), got {server.workers}"
        )
    if not pool and n < 2:
        raise ValueError(
            "workers must be at least 2, as one accepts and starts the others, and their stacks "
            f"must fit address_space_bytes; there can be {n}"
        )
    for_connections = n if pool else n - 1
    if client.idle > for_connections:
        raise ValueError(
            f"idle must be at most {for_connections}, as each idle connection holds one of {n} "
            f"threads, got {client.idle}"
        )
    return server._replace(workers=n)
