"""What one run is told besides its trace and its costs."""

from __future__ import annotations

from typing import NamedTuple

from .units import SECOND_NS


class ServerSettings(NamedTuple):
    """The server program and its limits.

    accept_limit is the number of accepts for one notification (0: until EAGAIN); fd_limit the
    highest number of descriptors; fd_setsize the highest that a bitmap can hold (0: no bound);
    send_buffer_bytes what Linux lets a send buffer grow to (net.ipv4.tcp_wmem).
    """

    accept_limit: int = 0
    listener_last: bool = False
    read_after_accept: bool = False
    backlog: int = 4096
    refuse: bool = False
    max_events: int = 1024
    fd_limit: int = 1_048_576
    fd_setsize: int = 0
    send_buffer_bytes: int = 4_194_304


class NetworkSettings(NamedTuple):
    """The link between clients and server; a bandwidth of 0 is without limit."""

    delay_ns: int = 0
    up_bits_per_s: int = 0
    down_bits_per_s: int = 0


class ClientSettings(NamedTuple):
    """The clients besides their trace: patience, descriptors, and the idle population.

    Idle connections are open when the run begins. With idle_life_ns each is closed by its client
    after an exponential time of that mean and opened again at once; 0: they stay.
    """

    timeout_ns: int = 0
    fd_limit: int = 1_048_576
    idle: int = 0
    idle_life_ns: int = 0


class RunSettings(NamedTuple):
    """Everything about a run but its trace, its costs and its mechanism."""

    server: ServerSettings = ServerSettings()
    network: NetworkSettings = NetworkSettings()
    client: ClientSettings = ClientSettings()
    duration_ns: int = 2 * SECOND_NS
    warm_up_ns: int = 0
    sample_every_ns: int = 10_000_000
    seed: int = 1
