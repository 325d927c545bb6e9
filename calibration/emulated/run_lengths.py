"""For how long the emulated target runs a point.

Lengths are chosen by requests and not by time: an emulated second costs as much as its
instructions, and what a run says is as exact as its number of requests.

Two choices keep single instructions from deciding what is measured, as no jitter dissolves it
here. Users who do not think lock into a pattern. A server that empties its accept queue
in each round alternates between waits for new and waits for old connections until a connection
happens to come between its last accept and its next wait, which takes some twenty rounds: scans
are given time before the window, and at and above capacity the queue is short, so that rounds are.
"""

from __future__ import annotations

from typing import NamedTuple

from ...sim.state.units import SECOND_NS
from ..points.point import Point

OVERLOAD_BACKLOG = 128
"""Of points from the capacity on."""
DELAY_NS = 50_000
"""One way between client and server."""

WARM_UP_REQUESTS = 500
WINDOW_REQUESTS = 4_000
_USERS_WARM_UP = 4  # requests of each user before the window, where users are many
_WAITS_WARM_UP = 100  # that scan, before the window
_OVERLOAD_WARM_UP_S = 0.15  # some thirty rounds of a full queue
_GRAIN_NS = 10_000_000  # of lengths
_REQUEST_NS = 40_000  # of the server's CPU, about; these two only choose lengths
_LONG_REPLY_BYTES = 16_384  # to send this much is another request's work, about
_SCANNED_NS = 250  # for a descriptor that a wait looks at, about
_SCANNING = ("select", "poll")


class RunLengths(NamedTuple):
    """Of the parts of a run, in ns, whole multiples of 10 ms."""

    warm_up_ns: int
    window_ns: int


def lengths_of(point: Point) -> RunLengths:
    """Return how long a run at *point* lasts so that its window holds about 4,000 requests.

    Of long replies there are fewer: each is as much work as several requests.

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
    """Return about how many requests a second there are at *point*: within a factor of two.

    All users of a closed loop go through two waits and four delays a connection, together; with
    an accept limit no more connections than that begin for a wait.
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
    """Return about how long a wait at *point* looks at the idle descriptors."""
    return point.idle.connections * _SCANNED_NS if point.server.mechanism in _SCANNING else 0


def _whole(seconds: float) -> int:
    """Return *seconds* in ns, rounded up to whole grains."""
    return -round(-seconds * SECOND_NS // _GRAIN_NS) * _GRAIN_NS
