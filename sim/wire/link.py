"""When a link of finite bandwidth is busy: periods in order of time, by direction.

    now │ ▇▇▇     ▇▇         ▇▇▇▇▇▇      messages of clients are planned ahead, each for when its
        │     └ a message that is sent earlier, and planned later, has the gap before them

A client's message is planned when what it follows is sent, often a delay ahead. So messages are
not planned in the order in which they are sent: each takes the first gap that is long enough. Those
that are sent one after the other while the link is busy wait in the order in which they are
planned. A link that is always busy has one long period, and one that is seldom busy few at a time.
"""

from __future__ import annotations

from ..state.world import World

UP, DOWN = 0, 1
PERIODS = 1 << 14
"""Of a direction that are remembered, a power of two. Where there are more, the gap between two
counts as busy: 16,384 messages under way at once take a delay of 160 ms at 100,000/s."""


def leaves_ns(world: World, way: int, at_ns: int, takes_ns: int) -> int:
    """Return when a message that is sent at *at_ns* has left, and have the link be busy with it."""
    _forget_past(world, way)
    n = world.n_busy[way]
    i, begin_ns = n, at_ns
    if n > 0 and at_ns < world.busy_end_ns[_place(world, way, n - 1)]:
        i = _first_that_ends_after(world, way, at_ns)
        while i < n and world.busy_begin_ns[_place(world, way, i)] < begin_ns + takes_ns:
            begin_ns = world.busy_end_ns[_place(world, way, i)]
            i += 1
    _add(world, way, i, begin_ns, begin_ns + takes_ns)
    return begin_ns + takes_ns


def free_from_ns(world: World, way: int, at_ns: int) -> int:
    """Return when the link, whose bandwidth has no bound any more, is free from *at_ns* on."""
    if world.n_busy[way] == 0:
        return at_ns
    _forget_past(world, way)
    i = _first_that_ends_after(world, way, at_ns)
    if i == world.n_busy[way] or world.busy_begin_ns[_place(world, way, i)] > at_ns:
        return at_ns
    return world.busy_end_ns[_place(world, way, i)]


def _place(world: World, way: int, i: int) -> int:
    """Return where period *i* of a direction is in the columns."""
    room = len(world.busy_end_ns) >> 1
    return way * room + ((world.first_busy[way] + i) & (room - 1))


def _forget_past(world: World, way: int) -> None:
    """Forget the periods that have ended."""
    room = len(world.busy_end_ns) >> 1
    while world.n_busy[way] > 0 and world.busy_end_ns[_place(world, way, 0)] <= world.now_ns:
        world.first_busy[way] = (world.first_busy[way] + 1) & (room - 1)
        world.n_busy[way] -= 1


def _first_that_ends_after(world: World, way: int, at_ns: int) -> int:
    """Return the number of the first period that ends after *at_ns*, or how many there are."""
    low, high = 0, world.n_busy[way]
    while low < high:
        middle = (low + high) // 2
        if world.busy_end_ns[_place(world, way, middle)] > at_ns:
            high = middle
        else:
            low = middle + 1
    return low


def _add(world: World, way: int, i: int, begin_ns: int, end_ns: int) -> None:
    """Have the link be busy before period *i*; periods that touch are one."""
    n, room = world.n_busy[way], len(world.busy_end_ns) >> 1
    follows = i > 0 and world.busy_end_ns[_place(world, way, i - 1)] == begin_ns
    precedes = i < n and world.busy_begin_ns[_place(world, way, i)] == end_ns
    if follows and precedes:
        world.busy_end_ns[_place(world, way, i - 1)] = world.busy_end_ns[_place(world, way, i)]
        _remove(world, way, i)
    elif follows or (n == room and i > 0):
        world.busy_end_ns[_place(world, way, i - 1)] = end_ns
    elif precedes or n == room:
        world.busy_begin_ns[_place(world, way, i)] = begin_ns
    else:
        _make_room(world, way, i)
        world.busy_begin_ns[_place(world, way, i)] = begin_ns
        world.busy_end_ns[_place(world, way, i)] = end_ns


def _make_room(world: World, way: int, i: int) -> None:
    """Move the periods on the shorter side of *i* away by one."""
    n, room = world.n_busy[way], len(world.busy_end_ns) >> 1
    world.n_busy[way] = n + 1
    if 2 * i < n:
        world.first_busy[way] = (world.first_busy[way] - 1) & (room - 1)
        for j in range(i):
            _copy(world, way, j + 1, j)
    else:
        for j in range(n - i):
            _copy(world, way, n - j - 1, n - j)


def _remove(world: World, way: int, i: int) -> None:
    """Close the place of period *i*, from the shorter side."""
    n, room = world.n_busy[way], len(world.busy_end_ns) >> 1
    if 2 * i < n:
        for j in range(i):
            _copy(world, way, i - j - 1, i - j)
        world.first_busy[way] = (world.first_busy[way] + 1) & (room - 1)
    else:
        for j in range(n - i - 1):
            _copy(world, way, i + j + 1, i + j)
    world.n_busy[way] = n - 1


def _copy(world: World, way: int, source: int, target: int) -> None:
    from_place, to_place = _place(world, way, source), _place(world, way, target)
    world.busy_begin_ns[to_place] = world.busy_begin_ns[from_place]
    world.busy_end_ns[to_place] = world.busy_end_ns[from_place]
