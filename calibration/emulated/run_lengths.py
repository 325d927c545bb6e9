"""The lengths of runs on the emulated target.

Lengths follow from requests and not from time: an emulated second costs as much as its
instructions, and the precision of a run depends on its number of requests.

Two choices keep single instructions from deciding the result, as there is no jitter here. Users
without think times lock into a pattern. A server that empties its accept queue in each round
alternates between waits for new and for old connections, until a connection happens to come between
its last accept and its next wait. That takes some twenty rounds: scans get time before the window,
and at and above capacity the queue is short, so that rounds are short.
"""

from __future__ import annotations

from typing import NamedTuple

from ...sim.state.units import SECOND_NS
from ..points.point import Point

OVERLOAD_BACKLOG = 128
"""For points at or above the capacity."""
DELAY_NS = 50_000
"""The delay between client and server, one way."""

WARM_UP_REQUESTS = 500
WINDOW_REQUESTS = 4_000
_USERS_WARM_UP = 4  # requests of each user before the window, where users are many
_WAITS_WARM_UP = 100  # scans before the window
_OVERLOAD_WARM_UP_S = 0.15  # some thirty rounds of a full queue
_GRAIN_NS = 10_000_000  # of lengths
_REQUEST_NS = 40_000  # of the server's CPU, approximately; these two only choose lengths
_LONG_REPLY_BYTES = 16_384  # sending this much costs about as much as another request
_SCANNED_NS = 250  # the approximate cost of a descriptor in a scan
_SCANNING = ("select", "poll")


class RunLengths(NamedTuple):
    """The lengths of the parts of a run, in ns, whole multiples of 10 ms."""

    warm_up_ns: int
    window_ns: int


def lengths_of(point: Point) -> RunLengths:
    """Return the lengths of a run at *point* whose window holds about 4,000 requests.

    With long replies there are fewer: each is as much work as several requests.

    >>> from dispatchsim.calibration.points.points import point_at
    >>> lengths_of(point_at(mechanism="poll", loop="open", rate_per_s=8_000))
    RunLengths(warm_up_ns=70000000, window_ns=500000000)
    """
    rate_per_s = expected_rate_per_s(point)
    n_before = max(WARM_UP_REQUESTS, _USERS_WARM_UP * point.users)
    warm_up_s = max(
        n_before / rate_per_s,
        _WAITS_WARM_UP * _scan_ns(point) / SECOND_NS,
        _OVERLOAD_WARM_UP_S if point.server.backlog == OVERLOAD_BACKLOG else 0,
    )
    n_window = WINDOW_REQUESTS / max(1, point.load.reply_size / _LONG_REPLY_BYTES)
    return RunLengths(_whole(warm_up_s), _whole(n_window / rate_per_s))


def expected_rate_per_s(point: Point) -> float:
    """Return the approximate requests a second at *point*, within a factor of two.

    All users of a closed loop pass through two waits and four delays for a connection, together;
    with an accept limit, at most that many connections begin in each wait.
    """
    if point.load.loop == "open":
        return point.rate_per_s
    wait_ns = _scan_ns(point)
    busy_ns = point.users * _REQUEST_NS + 2 * wait_ns
    cycle_ns = max(busy_ns, point.load.think_time + 4 * DELAY_NS + _REQUEST_NS) + 4 * DELAY_NS
    rate_per_s = point.users * SECOND_NS / cycle_ns
    if point.server.accept_limit:
        rate_per_s = min(
            rate_per_s, SECOND_NS / (_REQUEST_NS + wait_ns / point.server.accept_limit)
        )
    return rate_per_s


def _scan_ns(point: Point) -> int:
    """Return the approximate time in which a wait at *point* scans the idle descriptors."""
    return point.idle.connections * _SCANNED_NS if point.server.mechanism in _SCANNING else 0


def _whole(seconds: float) -> int:
    """Return *seconds* in ns, rounded up to whole grains."""
    return -round(-seconds * SECOND_NS // _GRAIN_NS) * _GRAIN_NS
