"""Rules of a scenario whose machine is the client: keys for servers only, and keys it needs."""

from __future__ import annotations

from ..models.catalogue import CLIENTS, MECHANISMS
from ..models.client_settings import client_fds, client_threads_of
from ..sim.state.mechanism import Trait
from ..sim.state.program_settings import THREADS_MAX
from ..sim.state.settings import RunSettings, given_to_server
from .declared import written
from .load import Load
from .quantities import DURATION, SIZE
from .sections import Idle, Machine
from .server import Server

_KEYS = {"mechanism"} | {
    given.declared.key
    for given in given_to_server(RunSettings())
    if given.declared.setting.of_client
}
"""The keys of [server] that a client uses."""
_WHERE = 'where machine.role is "client"'


def check_client(server: Server, load: Load, idle: Idle, machine: Machine) -> None:
    """Check that the sections go together where the machine is the client.

    Raises
    ------
    ValueError
        With key, rule and value.
    """
    if server.program is not None:
        raise ValueError(f'server.program: must be absent {_WHERE}, got "{server.program}"')
    if server.mechanism not in CLIENTS:
        raise ValueError(
            f"server.mechanism: must be one of {', '.join(CLIENTS)} {_WHERE}, "
            f'got "{server.mechanism}"'
        )
    if load.loop != "closed":
        raise ValueError(f'load.loop: must be "closed" {_WHERE}, got "{load.loop}"')
    foreign = {
        "load.trace": written(load.trace) if load.trace else None,
        "load.think_time": DURATION.format(load.think_time) if load.think_time else None,
        "load.timeout": DURATION.format(load.timeout) if load.timeout else None,
        "load.descriptors": str(load.descriptors) if load.descriptors else None,
        "load.ports": str(load.ports) if load.ports else None,
        "load.close": written(load.close) if load.close != "reset" else None,
        "load.retries": str(load.retries) if load.retries else None,
        "idle.life": DURATION.format(idle.life) if idle.life else None,
        "machine.clients": '"generator"' if machine.clients == "generator" else None,
    }
    set_keys = sorted(server.model_fields_set - _KEYS)
    foreign |= {f"server.{key}": _shown(server, key) for key in set_keys}
    for key, value in foreign.items():
        if value is not None:
            raise ValueError(f"{key}: must be absent {_WHERE}, got {value}")
    _check_room(server, load, idle)


def _shown(server: Server, key: str) -> str:
    """Return the value of *key* as a scenario file has it, with its unit."""
    return written(server.model_dump(include={key})[key])


def _check_room(server: Server, load: Load, idle: Idle) -> None:
    assert load.users is not None
    mechanism = MECHANISMS[server.mechanism]
    blocks = Trait.IN_CALLS in mechanism.traits
    if blocks and idle.connections > 0:
        raise ValueError(
            f"idle.connections: must be 0 {_WHERE} with a thread for each user, "
            f"got {idle.connections}"
        )
    threads = client_threads_of(mechanism, load.users)
    if "workers" in server.model_fields_set and server.workers != threads:
        raise ValueError(
            f"server.workers: must be absent {_WHERE}: blocking has a thread for each user, "
            f"other mechanisms one thread, got {server.workers}"
        )
    limits = {"server.descriptors": server.descriptors}
    if server.mechanism == "select" and server.fd_setsize:
        limits["server.fd_setsize"] = server.fd_setsize
    if blocks and load.users > THREADS_MAX:
        raise ValueError(
            f"load.users: must be at most {THREADS_MAX} {_WHERE} with a thread for each user, "
            f"got {load.users}"
        )
    if server.send_buffer is not None and load.request_size > server.send_buffer:
        raise ValueError(
            f"load.request_size: must be at most server.send_buffer "
            f"({SIZE.format(server.send_buffer)}) {_WHERE}, got {SIZE.format(load.request_size)}"
        )
    least = client_fds(mechanism, users=load.users, idle=idle.connections)
    for key, limit in limits.items():
        if limit < least:
            raise ValueError(
                f"{key}: must be at least {least} ({load.users} users, {idle.connections} idle "
                f"connections and the client's own), got {limit}"
            )
