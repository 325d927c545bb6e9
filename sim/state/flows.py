"""Flows and packets: what decides the way of a connection, and the numbers of its packets."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .units import PERMILLE
from .world import World

KIND_BITS = 5
Packet = TypeVar("Packet", int, NDArray[np.int64])
"""One, or a column of them."""


def flow_hash(row: int) -> int:
    """Return the hash of a connection's addresses and ports: 32 bits that look random.

    What decides it on a machine (Toeplitz, jhash) is as arbitrary. Two rounds of multiplying and
    folding: with one, neighbours would take turns, and no queue would see a burst.
    """
    bits = row & 0xFFFFFFFF
    bits = ((bits ^ bits >> 16) * 0x45D9F3B) & 0xFFFFFFFF
    bits = ((bits ^ bits >> 16) * 0x45D9F3B) & 0xFFFFFFFF
    return bits ^ bits >> 16


def thousandth_of(world: World, c: int, salt: int) -> int:
    """Return in which thousandth of all clients that of *c* is, for the choice that *salt* names.

    Whoever tries again is where it was; other bits of the hash choose CPUs and listeners.
    """
    return (flow_hash(world.row[c] // world.rows_each + salt) >> 8) % PERMILLE


def packet_of(c: int, kind: int) -> int:
    """Return the number that stands for a packet of that *kind* to *c*."""
    return (c << KIND_BITS) + kind


def packet_kind(packet: Packet) -> Packet:
    """Return which occurrence *packet* was when it came."""
    return packet & ((1 << KIND_BITS) - 1)


def packet_connection(packet: Packet) -> Packet:
    """Return the connection that *packet* came to."""
    return packet >> KIND_BITS
