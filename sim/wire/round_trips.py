"""Which way the packets of a connection take, and how long that is there and back."""

from __future__ import annotations

from ..state.flows import thousandth_of
from ..state.world import World


def path_of(world: World, c: int) -> int:
    """Return the number of the path of *c*: by their shares, and a hash of its client.

    Whoever tries again comes the same way.
    """
    share = thousandth_of(world, c, 1)
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
