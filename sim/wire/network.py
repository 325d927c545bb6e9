"""The link: a delay each way and, where bandwidth is finite, a wire that carries one by one.

A packet leaves when the wire is free (sim/wire/link.py) and arrives one delay after its last bit.
Clients may have paths of their own to it (sim/wire/paths.py). Messages have been on those paths
before they are on the link upwards; they take their turns on it as if they had not: the wire is as
busy, at times that are earlier by a delay.
"""

from __future__ import annotations

from ..state.kinds import count
from ..state.world import World
from .link import DOWN, UP, free_from_ns, leaves_ns
from .paths import over_path_ns, reset_over_path_ns
from .way import path_of, wire_ns


def send_up(world: World, c: int, at_ns: int, payload_bytes: int) -> int:
    """Send from the client of *c* at *at_ns*; return when the last bit reaches the server."""
    arrives_ns = _over_link_up(world, at_ns, payload_bytes)
    if world.n_paths > 0:
        arrives_ns += _up_path_ns(world, c, payload_bytes, False)
    return arrives_ns


def send_reset_up(world: World, c: int, at_ns: int) -> int:
    """Send a reset from the client of *c* at *at_ns*; return when it arrives, or NONE: lost."""
    arrives_ns = _over_link_up(world, at_ns, 0)
    return arrives_ns if world.n_paths == 0 else reset_over_path_ns(world, c, arrives_ns)


def send_reset_down(world: World, c: int, at_ns: int) -> int:
    """Send a reset from the server at *at_ns*; return when it is at the client, or NONE: lost."""
    arrives_ns = _over_link_down(world, at_ns, 0)
    return arrives_ns if world.n_paths == 0 else reset_over_path_ns(world, c, arrives_ns)


def send_syn(world: World, c: int, at_ns: int) -> int:
    """Send the connection request of *c* at *at_ns*; return when it reaches the server."""
    payload_bytes = world.request_bytes[c] if world.network.set_up == 0 else 0
    arrives_ns = _over_link_up(world, at_ns, payload_bytes)
    if world.n_paths > 0:
        arrives_ns += _up_path_ns(world, c, payload_bytes, True)
    return arrives_ns


def send_down(world: World, c: int, at_ns: int, payload_bytes: int) -> int:
    """Send from the server at *at_ns*; return when the last bit reaches the client of *c*."""
    arrives_ns = _over_link_down(world, at_ns, payload_bytes)
    if world.n_paths > 0:
        arrives_ns += _down_path_ns(world, c, payload_bytes, False)
    return arrives_ns


def send_syn_ack(world: World, c: int, at_ns: int) -> int:
    """Answer the connection request of *c* at *at_ns*; return when that reaches its client."""
    arrives_ns = _over_link_down(world, at_ns, 0)
    if world.n_paths > 0:
        arrives_ns += _down_path_ns(world, c, 0, True)
    return arrives_ns


def _over_link_up(world: World, at_ns: int, payload_bytes: int) -> int:
    delay_ns = world.network.delay_ns
    if world.up_bits_per_s == 0:
        # Without a bound from now on, behind what a bounded link has still to carry.
        return free_from_ns(world, UP, at_ns) + delay_ns
    takes_ns = wire_ns(payload_bytes, world.up_bits_per_s)
    world.counts[count.LINK_UP_NS] += takes_ns
    return leaves_ns(world, UP, at_ns, takes_ns) + delay_ns


def _over_link_down(world: World, at_ns: int, payload_bytes: int) -> int:
    delay_ns = world.network.delay_ns
    if world.down_bits_per_s == 0:
        return free_from_ns(world, DOWN, at_ns) + delay_ns
    takes_ns = wire_ns(payload_bytes, world.down_bits_per_s)
    world.counts[count.LINK_DOWN_NS] += takes_ns
    return leaves_ns(world, DOWN, at_ns, takes_ns) + delay_ns


def _up_path_ns(world: World, c: int, payload_bytes: int, opens: bool) -> int:
    bits_per_s = world.path_up_bits_per_s[path_of(world, c)]
    return over_path_ns(world, c, payload_bytes, bits_per_s, opens)


def _down_path_ns(world: World, c: int, payload_bytes: int, opens: bool) -> int:
    bits_per_s = world.path_down_bits_per_s[path_of(world, c)]
    return over_path_ns(world, c, payload_bytes, bits_per_s, opens)
