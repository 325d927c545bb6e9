"""Gaps of the host on the clients' CPU: sending and receiving wait for the end of a gap.

Clients do not act in order of time, so each action searches for its gap.
"""

from __future__ import annotations

from ..state.world import World


def out_of_gap_ns(world: World, at_ns: int) -> int:
    """Return when the clients' CPU is in no gap, from *at_ns* on."""
    return after_gaps_ns(world, at_ns, 0)


def after_gaps_ns(world: World, begin_ns: int, work_ns: int) -> int:
    """Return when the clients' CPU has done what takes *work_ns*, from *begin_ns* on."""
    end_ns = begin_ns + work_ns
    if world.n_client_gaps == 0:
        return end_ns
    number = _first_after(world, begin_ns)
    if number > 0:
        before_ns = _begin_ns(world, number - 1) + _length_ns(world, number - 1)
        end_ns += max(0, before_ns - begin_ns)
    while _begin_ns(world, number) < end_ns:
        end_ns += _length_ns(world, number)
        number += 1
    return end_ns


def _first_after(world: World, at_ns: int) -> int:
    """Return the number of the first gap that begins behind *at_ns*.

    The gaps of the first period of the recording are the first, whether the run has them or not.
    """
    period_ns = world.client_gap_period_ns
    place_ns = at_ns + world.client_gaps_from_ns
    low, high = 0, world.n_client_gaps
    while low < high:
        middle = (low + high) // 2
        if world.client_gap_at_ns[middle] > place_ns % period_ns:
            high = middle
        else:
            low = middle + 1
    return place_ns // period_ns * world.n_client_gaps + low


def _begin_ns(world: World, number: int) -> int:
    n = world.n_client_gaps
    cycle_ns = number // n * world.client_gap_period_ns
    return world.client_gap_at_ns[number % n] + cycle_ns - world.client_gaps_from_ns


def _length_ns(world: World, number: int) -> int:
    return world.client_gap_length_ns[number % world.n_client_gaps]


def client_turn(world: World, at_ns: int, cost_ns: int) -> int:
    """Spend *cost_ns* of the clients' CPU, from *at_ns* or when it is free; return the end."""
    if world.free_clients:
        return at_ns
    begin_ns = max(at_ns, world.client_free_ns)
    world.client_free_ns = after_gaps_ns(world, begin_ns, cost_ns)
    return world.client_free_ns
