"""Settings of a client: it accepts no connections, so most settings of a server do not apply."""

from __future__ import annotations

import json

from ..sim.assembly.checks import check
from ..sim.kernel.descriptors import FIRST_FD
from ..sim.load.workload import Trace
from ..sim.state.kernel_settings import SEND_BUFFER_MAX, LimitSettings
from ..sim.state.mechanism import Mechanism, Trait
from ..sim.state.settings import RunSettings, given_to_server


def client_settings(mechanism: Mechanism, trace: Trace, settings: RunSettings) -> RunSettings:
    """Return *settings* with the bounds of a client that uses *mechanism* for the users of *trace*.

    A descriptor beyond select's bitmap cannot be watched, so FD_SETSIZE limits a client, too.

    Raises
    ------
    ValueError
        With the name, rule and value of a setting that a client cannot have.
    """
    limits = settings.limits
    blocks = Trait.IN_CALLS in mechanism.traits
    check(settings, mechanism.fds, one_at_a_time=blocks)
    for given in given_to_server(settings):
        if given.is_changed and not given.declared.setting.of_client:
            raise ValueError(
                f"{given.declared.name} must be {json.dumps(given.declared.default)} "
                f"with a client, which accepts no connections, got {json.dumps(given.value)}"
            )
    if settings.classes:
        raise ValueError(
            f"classes must be none with a client, whose users are alike, "
            f"got {len(settings.classes)}"
        )
    for name in ("timeout_ns", "idle_life_ns", "retries", "ports", "closing"):
        if getattr(settings.client, name) != 0:
            raise ValueError(
                f"{name} must be 0 with a client, as no other program waits for it, "
                f"got {getattr(settings.client, name)}"
            )
    if blocks and settings.client.idle > 0:
        raise ValueError(
            f"idle must be 0 with a client that has a thread for each user, "
            f"got {settings.client.idle}"
        )
    _check_trace(trace, limits)
    workers = client_threads_of(mechanism, trace.users)
    if settings.program.workers != workers:
        why = "a thread for each user" if blocks else "one thread for all of its users"
        raise ValueError(
            f"workers must be {workers} with a client that has {why}, "
            f"got {settings.program.workers}"
        )
    if mechanism.name == "select" and settings.scans.fd_setsize > 0:
        limits = limits._replace(fd_limit=min(limits.fd_limit, settings.scans.fd_setsize))
    fds_needed = client_fds(mechanism, users=trace.users, idle=settings.client.idle)
    if limits.fd_limit < fds_needed:
        raise ValueError(
            f"fd_limit must be at least {fds_needed} for a client of {trace.users} users "
            f"(select: fd_setsize, too), got {limits.fd_limit}"
        )
    return settings._replace(limits=limits)


def client_fds(mechanism: Mechanism, *, users: int, idle: int) -> int:
    """Return the number of descriptors that a client needs: streams, mechanism, connections.

    >>> from .catalogue import MECHANISMS
    >>> client_fds(MECHANISMS["select"], users=1021, idle=0)
    1024
    """
    return FIRST_FD + mechanism.fds + users + idle


def client_threads_of(mechanism: Mechanism, users: int) -> int:
    """Return the number of threads of a client with *mechanism*: one for each user, or one."""
    return users if Trait.IN_CALLS in mechanism.traits else 1


def _check_trace(trace: Trace, limits: LimitSettings) -> None:
    if trace.loop != "closed":
        raise ValueError(
            f'loop must be "closed" with a client, which sends after each reply, got "{trace.loop}"'
        )
    if trace.think_ns.any():
        raise ValueError(
            f"think_ns must be 0 with a client, which sends after each reply "
            f"(service_ns is the server's), got {trace.think_ns.max()}"
        )
    send_buffer_bytes = limits.send_buffer_bytes or SEND_BUFFER_MAX
    if trace.request_bytes.max() > send_buffer_bytes:
        raise ValueError(
            f"request_bytes must be at most send_buffer_bytes ({send_buffer_bytes}) "
            f"with a client, got {trace.request_bytes.max()}"
        )
