"""What one run is told besides its trace and its costs."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from .units import SECOND_NS


class Sharing(IntEnum):
    """What several workers have in common, besides the table of descriptors."""

    NOTHING = 0  # an accept queue and an interest set each (SO_REUSEPORT)
    ACCEPT_QUEUE = 1  # one accept queue, watched by the interest set of each
    READY_LIST = 2  # one accept queue and one interest set, in which all wait


EVERY_CPU = -1
"""Packets go to the CPU that their flow's hash says (RSS, RPS)."""


class ServerSettings(NamedTuple):
    """The server program and its limits.

    syn_cookies answers a SYN that finds too many half-open connections without remembering it, as
    Linux does by default (net.ipv4.tcp_syncookies = 1); without, such a SYN is lost.

    accept_limit is the number of accepts for one notification (0: until EAGAIN); fd_limit the
    highest number of descriptors; fd_setsize the highest that a bitmap can hold (0: no bound);
    send_buffer_bytes what Linux lets a send buffer grow to (net.ipv4.tcp_wmem).

    workers are threads, pinned to the CPUs in turn; sharing says what they have in common, and
    wake_one lets a new connection wake one instead of all that watch its queue (EPOLLEXCLUSIVE).
    interrupt_cpu is the CPU that handles packets, or EVERY_CPU; slice_ns how long a worker keeps
    its CPU while others wait for it (Linux kernel/sched/fair.c: 0.7 ms, twice that on two CPUs).
    """

    accept_limit: int = 0
    listener_last: bool = False
    read_after_accept: bool = False
    backlog: int = 4096
    refuse: bool = False
    syn_cookies: bool = True
    max_events: int = 1024
    fd_limit: int = 1_048_576
    fd_setsize: int = 0
    send_buffer_bytes: int = 4_194_304
    workers: int = 1
    cpus: int = 1
    sharing: int = int(Sharing.ACCEPT_QUEUE)
    wake_one: bool = False
    interrupt_cpu: int = 0
    slice_ns: int = 1_400_000


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
