"""The path between a client and the link: a LAN, a WAN, a modem; each connection has one.

    client ── path: delay, bandwidth, loss ──┬── link (sim/wire/network.py) ── server
    client ── path ──────────────────────────┘

A path has no queue: its client is alone on it. Lost segments are retransmitted: the last ones of a
message by a timer, earlier ones after duplicate acknowledgements. Later segments wait, as TCP
delivers in order. Losses are random, decided before the run. Left out: senders that give up. After
its last repetition a segment arrives.

Sources: RFC 6298 (a second before there is a measurement; later the round-trip time, and what is
added to it, in Linux at least 200 ms, all of it doubled each time); RFC 5681, section 3.2 (fast
retransmit at three duplicates).
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..load.streams import generator
from ..state.client_settings import NetworkSettings
from ..state.kinds import NONE, count
from ..state.units import MILLIONTHS
from ..state.world import World
from .retransmission import DATA_RETRIES_MAX, data_retry_ns, syn_retries_max, syn_retry_ns
from .way import (
    PATH_SALT,
    n_segments_of,
    path_of,
    round_trip_ns,
    thousandth_of_flow,
    wire_ns,
)

_DRAWS = 65_536
BY_DUPLICATES, BY_TIMER = 1, 2
"""How a sender learns that a segment was lost."""
_DUPLICATES = 3
"""Acknowledgements that repeat the one before, until a sender takes a segment for lost."""


def loss_draws(network: NetworkSettings, seed: int) -> NDArray[np.int64]:
    """Return the random numbers that decide losses, in millionths; none without losses.

    Raises
    ------
    ValueError
        If *seed* is negative.
    """
    if not any(path.loss_millionths for path in network.paths):
        return np.zeros(0, np.int64)
    return generator(seed, "loss").integers(0, MILLIONTHS, _DRAWS)


def paths_of(
    numbers: NDArray[np.int64], client_class: NDArray[np.int64], world: World
) -> NDArray[np.int64]:
    """Return the path of each of the trace's connections of these *numbers*; none without paths.

    *client_class* is the class of each; it may be empty where there is one.
    """
    if world.n_paths == 0:
        return np.zeros(0, np.int64)
    shares = cast(Any, thousandth_of_flow)(numbers, PATH_SALT)  # the same to all of an array
    found = np.searchsorted(np.asarray(world.path_until), shares, side="right")
    if world.n_classes > 1:
        of_class = np.asarray(world.class_path)[client_class]
        found = np.where(of_class == NONE, found, of_class)
    return np.asarray(found, np.int64)


def over_path_ns(world: World, c: int, payload_bytes: int, bits_per_s: int, opens: bool) -> int:
    """Return how long a message of *c* is on its path, until all of it is at the other end.

    One that *opens* a connection, SYN or SYN-ACK, waits a second for an answer before it is sent
    again. `World.lost_by` is how the sender learnt of other losses.
    """
    path = path_of(world, c)
    taken_ns = world.path_delay_ns[path] + wire_ns(payload_bytes, bits_per_s)
    loss = world.path_loss[path]
    world.lost_by = 0
    if loss == 0:
        return taken_ns
    n_segments = n_segments_of(payload_bytes)
    for i in range(n_segments):
        has_duplicates = not opens and i + _DUPLICATES < n_segments
        taken_ns += _repeating_ns(world, c, loss, opens, has_duplicates)
    return taken_ns


def reset_over_path_ns(world: World, c: int, at_ns: int) -> int:
    """Return when a reset that comes to the path of *c* at *at_ns* is at its other end.

    It is NONE if the reset is lost: a reset has no acknowledgement, so it is not sent again.
    """
    path = path_of(world, c)
    loss = world.path_loss[path]
    if loss > 0 and _is_lost(world, loss):
        return NONE
    return at_ns + world.path_delay_ns[path]


def _repeating_ns(world: World, c: int, loss: int, opens: bool, has_duplicates: bool) -> int:
    """Return how long a segment of *c* is repeated, until one is not lost.

    Duplicate acknowledgements report the loss of one with enough segments behind it. They do not
    report that of its repetition: no segment was sent after it.
    """
    taken_ns = 0
    n_timers = 0
    n_timers_max = syn_retries_max(world) if opens else DATA_RETRIES_MAX
    while n_timers < n_timers_max and _is_lost(world, loss):
        if has_duplicates:
            has_duplicates = False
            taken_ns += round_trip_ns(world, c)
            world.lost_by = max(world.lost_by, BY_DUPLICATES)
        elif opens:
            taken_ns += syn_retry_ns(world, n_timers)
            n_timers += 1
        else:
            taken_ns += data_retry_ns(world, c, n_timers)
            world.lost_by = BY_TIMER
            n_timers += 1
    return taken_ns


def _is_lost(world: World, loss: int) -> bool:
    world.next_loss_draw = (world.next_loss_draw + 1) % len(world.loss_draws)
    if world.loss_draws[world.next_loss_draw] >= loss:
        return False
    world.counts[count.SEGMENTS_LOST] += 1
    return True
