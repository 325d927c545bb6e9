"""The link: a delay each way and, where bandwidth is finite, a first-come first-served wire.

The sender's wire is busy until `free_ns`; a packet leaves when it is free and arrives one delay
after its last bit. Framing is counted as on Ethernet with IPv4 and TCP time stamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .jitable import inlined, jitable
from .units import SECOND_NS

if TYPE_CHECKING:
    from .world import World

SEGMENT_BYTES = 1448
"""Payload of a full segment on Ethernet with TCP time stamps."""
FRAME_BYTES = 90
"""Ethernet preamble, header, check sequence and gap (38), IPv4 (20), TCP with options (32)."""


@jitable
def wire_ns(payload_bytes: int, bits_per_s: int) -> int:
    """Return how long a message occupies a wire of *bits_per_s* (0: no time at all)."""
    if bits_per_s == 0:
        return 0
    n_segments = max(1, (payload_bytes + SEGMENT_BYTES - 1) // SEGMENT_BYTES)
    return (payload_bytes + n_segments * FRAME_BYTES) * 8 * SECOND_NS // bits_per_s


@inlined
def send_up(world: World, at_ns: int, payload_bytes: int) -> int:
    """Send from the clients at *at_ns*; return when the last bit reaches the server."""
    delay_ns = world.network.delay_ns
    if world.up_bits_per_s == 0:
        return at_ns + delay_ns
    world.up_free_ns = max(at_ns, world.up_free_ns) + wire_ns(payload_bytes, world.up_bits_per_s)
    return world.up_free_ns + delay_ns


@inlined
def send_down(world: World, at_ns: int, payload_bytes: int) -> int:
    """Send from the server at *at_ns*; return when the last bit reaches the client."""
    delay_ns = world.network.delay_ns
    if world.down_bits_per_s == 0:
        return at_ns + delay_ns
    world.down_free_ns = max(at_ns, world.down_free_ns) + wire_ns(
        payload_bytes, world.down_bits_per_s
    )
    return world.down_free_ns + delay_ns
