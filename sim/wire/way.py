"""The way of a message: its flow and path, its segments on a wire, the round trip.

The hash of a flow decides which path a connection takes, which CPU handles its packets, and which
of several listeners it comes to. Framing is counted as on Ethernet with IPv4 and TCP time stamps.
"""

from __future__ import annotations

from ..state.kinds import NONE
from ..state.units import PERMILLE, SECOND_NS
from ..state.world import World


def flow_hash(row: int) -> int:
    """Return the hash of a connection's addresses and ports: 32 bits that look random.

    What decides it on a machine (Toeplitz, jhash) is as arbitrary. Two rounds of multiplying and
    folding: with one, neighbours would take turns, and no queue would see a burst.
    """
    bits = row & 0xFFFFFFFF
    bits = ((bits ^ bits >> 16) * 0x45D9F3B) & 0xFFFFFFFF
    bits = ((bits ^ bits >> 16) * 0x45D9F3B) & 0xFFFFFFFF
    return bits ^ bits >> 16


PATH_SALT = 1
"""Names the choice of a path among those that `thousandth_of` makes."""


def thousandth_of_flow(number: int, salt: int) -> int:
    """Return in which thousandth of all clients that of flow *number* is, for the choice *salt*.

    Other bits of the hash choose CPUs and listeners.
    """
    return (flow_hash(number + salt) >> 8) % PERMILLE


def thousandth_of(world: World, c: int, salt: int) -> int:
    """Return the same of the client of *c*, which is where it was when it tries again."""
    return thousandth_of_flow(world.row[c] // world.rows_each, salt)


def drawn(draws: list[int], row: int, number: int) -> int:
    """Return the random value of *number* for connection *row* from a table (sim/load/laws.py)."""
    return draws[flow_hash(flow_hash(row) + number) % len(draws)]


SEGMENT_BYTES = 1448
"""Payload of a full segment on Ethernet with TCP time stamps."""
FRAME_BYTES = 90
"""Ethernet preamble, header, check sequence and gap (38), IPv4 (20), TCP with options (32)."""


def n_segments_of(payload_bytes: int) -> int:
    """Return how many segments a message takes; one without payload is a packet, too."""
    return max(1, (payload_bytes + SEGMENT_BYTES - 1) // SEGMENT_BYTES)


def wire_ns(payload_bytes: int, bits_per_s: int) -> int:
    """Return how long a message occupies a wire of *bits_per_s* (0: no time at all)."""
    if bits_per_s == 0:
        return 0
    n_bytes = payload_bytes + n_segments_of(payload_bytes) * FRAME_BYTES
    return n_bytes * 8 * SECOND_NS // bits_per_s


def path_of(world: World, c: int) -> int:
    """Return the number of the path of *c*: that of its class, or by a hash of its client.

    The hash obeys the shares of paths. A client that tries again comes the same way.
    """
    if world.n_classes > 1 and world.class_path[world.class_of[c]] != NONE:
        return world.class_path[world.class_of[c]]
    share = thousandth_of(world, c, PATH_SALT)
    path = 0
    while share >= world.path_until[path]:
        path += 1
    return path


def round_trip_ns(world: World, c: int) -> int:
    """Return how long a packet without payload takes there and back, on idle wires."""
    one_way_ns = world.network.delay_ns
    if world.n_paths > 0:
        one_way_ns += world.path_delay_ns[path_of(world, c)]
    return 2 * one_way_ns
