"""How series look in the figures: by number, and those of mechanisms by name in every figure.

Colours are those of Okabe and Ito 2008, which people with any colour vision can tell apart;
markers and dashes repeat what colours say.
"""

from __future__ import annotations

from typing import Any, NamedTuple

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vP*Xhp<"
_DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), "-.", (0, (1, 1)))


class Look(NamedTuple):
    """What tells a series from others; *dashes* as matplotlib takes a line's style."""

    colour: str
    marker: str
    dashes: Any


def nth_look(number: int) -> Look:
    """Return the look of the series of that number; the first 35 differ."""
    return Look(
        OKABE_ITO[number % len(OKABE_ITO)],
        _MARKERS[number % len(_MARKERS)],
        _DASHES[number % len(_DASHES)],
    )


_BY_NAME = {
    name: nth_look(number)
    for number, name in enumerate(
        (
            "epoll_level", "poll", "select", "epoll_edge", "epoll_once", "epoll_ctlv",
            "dev_poll", "rt_signals", "signal_per_fd", "sigtimedwait4", "signalfd", "epoll_oneshot",
            "epoll_close", "get_next_event", "kqueue", "aio_poll", "io_uring", "in_kernel",
            "blocking", "dev_poll_unhinted", "dev_poll_mmap", "dev_poll_or", "rt_signals_handler",
            "completion_port",
        )
    )
}  # fmt: skip
_UNKNOWN = Look("#808080", ".", "-")


def look_of(mechanism: str) -> Look:
    """Return how *mechanism* looks, in whatever figure and beside whatever others."""
    return _BY_NAME.get(mechanism, _UNKNOWN)
