"""Segments: what a message is cut into, and how long it occupies a wire.

Framing is counted as on Ethernet with IPv4 and TCP time stamps.
"""

from __future__ import annotations

from ..state.units import SECOND_NS

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
