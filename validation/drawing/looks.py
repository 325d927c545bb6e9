"""The colours, markers and dashes of series: by number, and of mechanisms by name.

Colours are those of Okabe and Ito 2008, distinct for all types of colour vision. Markers and dashes
repeat the distinction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vP*Xhp<"
_DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), "-.", (0, (1, 1)))


class Look(NamedTuple):
    """The colour, marker and dashes of a series; *dashes* is a line style of matplotlib."""

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
    """Return the look of *mechanism*, the same in every picture."""
    return _BY_NAME.get(mechanism, _UNKNOWN)


_ACTIVITIES = {
    "WAIT": "#0072B2",
    "ACCEPT": "#009E73",
    "READ": "#56B4E9",
    "WRITE": "#CC79A7",
    "CLOSE": "#8C8C8C",
    "WATCH": "#F0E442",
    "REWATCH": "#F0E442",
    "UNWATCH": "#F0E442",
    "USER": "#E69F00",
    "SLEEP": "#4D4D4D",
    "WAKE": "#4D4D4D",
    "INTERRUPT": "#D55E00",
    "INTERRUPT_IDLE": "#D55E00",
    "INTERRUPT_OTHER": "#D55E00",
    "KSOFTIRQD": "#A34700",
    "IDLE": "#FFFFFF",
    "SPAWN": "#006B4E",
    "CONNECT": "#006B4E",
    "OTHER": "#C8C8C8",
    "HOST": "#7A0019",
    "HOST_OTHER": "#7A0019",
}


_AS_FAR_FROM_BOTH = 0.179
"""The luminance with the same contrast to black and to white."""


def colour_of(activity: str) -> str:
    """Return the colour of a CPU activity, by its name in `Activity`, the same in every picture.

    Activities of one kind share a colour: all calls that declare an interest; falling asleep and
    waking; interrupts in any thread.
    """
    return _ACTIVITIES.get(activity, _UNKNOWN.colour)


def is_dark(colour: str) -> bool:
    """Return whether text on *colour*, "#RRGGBB", must be white, by the luminance of WCAG 2.2."""
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in shares]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return luminance < _AS_FAR_FROM_BOTH
