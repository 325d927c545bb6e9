"""The lengths of a server's queues as of now, read off its world: names and who reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .interest_set import n_listed
from .kinds import Count
from .world import World

_CONNECTIONS_OPEN = int(Count.CONNECTIONS_OPEN)

Measure = Callable[[World], int]
"""Reads the length of a queue off the world."""


def _half_open(world: World) -> int:
    return sum(listener.n_half for listener in world.listeners)


def _accept_queue(world: World) -> int:
    return sum(listener.n_queued for listener in world.listeners)


def _ready(world: World) -> int:
    return sum(n_listed(interests) for interests in world.sets)


def _connections_open(world: World) -> int:
    return world.counts[_CONNECTIONS_OPEN]


def _watched(world: World) -> int:
    return sum(interests.n_watched for interests in world.sets)


def _runnable(world: World) -> int:
    return sum(cpu.n_runnable for cpu in world.cpus)


def _packets_waiting(world: World) -> int:
    return sum(cpu.n_packets for cpu in world.cpus)


QUEUES: Mapping[str, Measure] = {
    "half_open": _half_open,
    "accept_queue": _accept_queue,
    "ready": _ready,
    "connections_open": _connections_open,
    "watched": _watched,
    "runnable": _runnable,
    "packets_waiting": _packets_waiting,
}
"""Lengths that every server has.

Of connections half open, to be accepted and accepted; of descriptors on ready lists and in interest
sets; of threads that wait for a CPU; and of packets that wait for the kernel's thread.
"""
