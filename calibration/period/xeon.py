"""The Xeon of Gammo, Brecht, Shukla and Pariag 2004.

table 1, column select ─► what each call of a reply takes, of 45.45 us / the share that was served
table 1, column LT ─────► what epoll's calls take; of edges and vectors in proportion
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...sim.load.workload import Load
from ...sim.state.kernel_settings import LimitSettings
from ...sim.state.program_settings import ProgramSettings
from ...sim.state.settings import RunSettings
from ...sim.state.units import MILLISECOND_NS, SECOND_NS
from .machine import SINCE_2_6_30, PeriodMachine, Step
from .operation import Operation, ns_per_reply, share

_Part = float | Callable[[Mapping[str, float]], float]
"""Of the run time: a share, or how it follows from what is assumed."""

RATE_PER_S = 22_000.0
_REPLY_BYTES = 1 + 240  # the header's size is assumed
_TOLD = RunSettings(
    program=ProgramSettings(writes_when_told=True), limits=LimitSettings(backlog=128)
)
_LOAD = Load("open", rate_per_s=1.1 * RATE_PER_S, reply_bytes=_REPLY_BYTES)
_OBTAIN = ("wait", "sleep", "wake")
_LINK = 2_000_000_000

_SERVED, _SETS, _INTERRUPTS = "served of 22,000/s", "select's sets in user code", "interrupts"
"""What the rows leave open. Rows that both columns have add up to 1.07 to 1.09 times as much with
select: the server had no time left with either, or accepts in vain would be a part of one alone. So
what is not listed of select has 3 to 5% that LT has not, which is user code of its sets."""
_UNLISTED = 0.1594
"""100% less the rows of the column select: user code and interrupts."""


def _of_run(share_of: _Part) -> Callable[[Mapping[str, float]], float]:
    """Return the target: ns a reply of a share of the run time with select."""

    def target(assumed: Mapping[str, float]) -> float:
        part = share_of(assumed) if callable(share_of) else share_of
        return part / assumed[_SERVED] * SECOND_NS / RATE_PER_S

    return target


def _calls(costs: tuple[str, ...], activity: str, part: _Part) -> Step:
    """Return the step of what a reply takes always, however many come at once."""
    few = Load("closed", users=16, reply_bytes=_REPLY_BYTES)
    operation = Operation(
        "select",
        ns_per_reply(activity),
        few,
        _TOLD,
        link_bits_per_s=_LINK,
        warm_up_ns=50 * MILLISECOND_NS,
        window_ns=150 * MILLISECOND_NS,
    )
    return Step("G04-06", costs, operation, _of_run(part))


def _loaded(costs: tuple[str, ...], activities: tuple[str, ...], part: _Part) -> Step:
    """Return the step of what depends on how many come at once: at the profile's rate."""
    operation = Operation(
        "select",
        ns_per_reply(*activities),
        _LOAD,
        _TOLD,
        link_bits_per_s=_LINK,
        warm_up_ns=100 * MILLISECOND_NS,
        window_ns=400 * MILLISECOND_NS,
    )
    return Step("G04-06", costs, operation, _of_run(part))


def _level(costs: tuple[str, ...], activities: tuple[str, ...], part: float) -> Step:
    operation = Operation(
        "epoll_level",
        share(*activities),
        _LOAD,
        _TOLD,
        link_bits_per_s=_LINK,
        warm_up_ns=100 * MILLISECOND_NS,
        window_ns=400 * MILLISECOND_NS,
    )
    return Step("G04-06", costs, operation, part)


_SELECT = _loaded(
    ("select.*", "poll.*"),
    _OBTAIN,
    lambda assumed: 0.1333 + assumed[_SETS],
)
_CHANGES = (
    "epoll_*.add_ns",
    "epoll_*.modify_ns",
    "epoll_*.delete_ns",
    "epoll_*.entry_ns",
    "epoll_*.forget_ns",
)
_WAITS = (
    *("epoll_*.call_ns", "epoll_*.recheck_ns", "epoll_*.notice_ns"),
    *("epoll_level.event_ns", "epoll_close.event_ns", "epoll_ctlv.event_ns"),
)
_LEVEL = (
    _level(_CHANGES, ("watch", "rewatch", "unwatch"), 0.1634),
    _level(_WAITS, _OBTAIN, 0.0715),
)

XEON = PeriodMachine(
    name="xeon-2400-linux-2.6.5",
    about="dual Xeon 2.4 GHz in uniprocessor mode, of Gammo, Brecht, Shukla and Pariag 2004",
    kernel="2.6.5",
    mechanisms=(
        *("select", "poll", "epoll_level", "epoll_edge"),
        *("epoll_once", "epoll_ctlv", "epoll_close"),
    ),
    absent=SINCE_2_6_30,
    delay_ns=(25_000.0, 60_000.0),
    assumes={_SERVED: (0.9, 1.0), _SETS: (0.03, 0.05), _INTERRUPTS: (0.02, 0.10)},
    # A server that is full finds the request there when it has accepted, and one that changes its
    # interest to writing can write.
    lists=tuple(
        f"{table}.{name}"
        for table in ("epoll_level", "epoll_close", "epoll_ctlv")
        for name in ("add_ns", "modify_ns")
    ),
    alike={
        "a descriptor's own poll": ("*.scan", "*.register", "*.release"),
        "EPOLL_CTL_ADD": ("epoll_*.add_ns",),
        "EPOLL_CTL_MOD": ("epoll_*.modify_ns",),
        "EPOLL_CTL_DEL": ("epoll_*.delete_ns", "epoll_*.forget_ns"),
        "epoll_wait": ("epoll_*.call_ns",),
        "an event of epoll_wait": (
            *("epoll_level.event_ns", "epoll_close.event_ns", "epoll_ctlv.event_ns"),
            "epoll_*.notice_ns",
        ),
        "a look in vain": ("epoll_*.recheck_ns",),
    },
    steps=(
        _calls(("call.read*",), "read", 0.2151),
        _calls(("call.write*",), "write", 0.0598 + 0.0343),
        _calls(("call.close_ns", "interrupt.sleep_ns", "interrupt.wake_ns"), "close", 0.1490),
        _calls(
            ("application.request_ns", "epoll_edge.event_ns"),  # what it remembers of edges, too
            "user",
            lambda assumed: 0.1117 + 0.0366 + _UNLISTED - assumed[_SETS] - assumed[_INTERRUPTS],
        ),
        _calls(("call.accept*",), "accept", 0.1008),
        _loaded(
            tuple(f"interrupt.{name}*" for name in ("entry", "syn", "ack", "data", "reset")),
            ("interrupt", "interrupt_idle"),
            lambda assumed: assumed[_INTERRUPTS],
        ),
        _SELECT,
        _loaded(("call.accept*",), ("accept",), 0.1008),
        _SELECT,
        *_LEVEL,
        *_LEVEL,
    ),
)  # fmt: skip
