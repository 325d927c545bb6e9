"""Prices for mechanisms that were not measured: those of what does the same work elsewhere.

    "epoll_level.delete_ns - call.crossing_ns"   of the same profile, the first that it can answer

Nobody can measure kqueue on Linux, and a planner asks for it all the same. What its calls do,
others of the profile do too: an entry of an interest set is made, changed and taken away, an event
is copied. So the price is lent, and every result says so. It holds for the work and not for the
code that does it: another kernel's may be better or worse.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .cost import Cost

Sums = dict[str, tuple[str, ...]]
"""By cost: what to add up, the best first."""

_WAIT: Sums = {
    "call_ns": ("epoll_level.call_ns",),
    "event_ns": ("epoll_level.event_ns",),
    "recheck_ns": ("epoll_level.recheck_ns",),
}
_IN_A_VECTOR: Sums = {
    "add_ns": ("epoll_ctlv.add_ns", "epoll_level.add_ns - call.crossing_ns"),
    # a filter taken away, and another added
    "modify_ns": (
        "epoll_level.delete_ns - call.crossing_ns + epoll_ctlv.add_ns",
        "epoll_level.delete_ns - call.crossing_ns + epoll_level.add_ns - call.crossing_ns",
    ),
}
_BY_DEV_POLL: Sums = {
    name: (f"dev_poll.{name}",)
    for name in (
        *("call_ns", "scan", "ask_ns", "event_ns", "entry_ns"),
        *("add_ns", "modify_ns", "delete_ns", "look"),
    )
}
_BY_RT_SIGNALS: Sums = {
    name: (f"rt_signals.{name}",)
    for name in (
        *("arm_ns", "queue_ns", "call_ns", "event_ns", "lost_ns", "flush_ns"),
        *("discard_ns", "poll", "rebuild", "keep_ns", "transfer_ns"),
    )
}
_FORGOTTEN: Sums = {"forget_ns": ("epoll_level.delete_ns - call.crossing_ns",)}

LENDERS: dict[str, Sums] = {
    "dev_poll_unhinted": _BY_DEV_POLL,
    # poll copies its array whatever is in it, so its event is the server's part of one alone.
    "dev_poll_mmap": _BY_DEV_POLL | {"event_ns": ("poll.event_ns",)},
    "dev_poll_or": _BY_DEV_POLL,
    # A frame is made where sigwaitinfo returns one signal's siginfo; the rest of the registers,
    # which it holds too, is not in that. sigreturn and sigprocmask do little but enter the kernel.
    "rt_signals_handler": {
        **_BY_RT_SIGNALS,
        "mask_ns": ("call.crossing_ns",),
        "deliver_ns": ("rt_signals.signal_ns",),
        "return_ns": ("call.crossing_ns",),
    },
    # Measured on Linux 6.18, in alternation: a wait of 16 one-shot events takes 4 to 6% less than
    # one of level-triggered ones, EPOLL_CTL_MOD after them the same within 1%.
    "epoll_oneshot": {
        **_WAIT,
        "add_ns": ("epoll_level.add_ns",),
        "modify_ns": ("epoll_level.modify_ns",),
        "delete_ns": ("epoll_level.delete_ns",),
    },
    # On hardware close was measured with the removal left to it, and call.close_ns is that less
    # this very loan (micro_costs.py): together they are what was measured.
    "epoll_close": {
        **_WAIT,
        "add_ns": ("epoll_level.add_ns",),
        "modify_ns": ("epoll_level.modify_ns",),
        **_FORGOTTEN,
    },
    "get_next_event": {
        "call_ns": ("epoll_edge.call_ns", "epoll_level.call_ns"),
        "notice_ns": ("epoll_edge.notice_ns", "epoll_level.event_ns"),
        "recheck_ns": ("epoll_edge.recheck_ns", "epoll_level.recheck_ns"),
        "add_ns": ("epoll_edge.add_ns", "epoll_level.add_ns"),
        "event_ns": ("epoll_edge.event_ns",),
        **_FORGOTTEN,
    },
    "kqueue": {**_WAIT, **_IN_A_VECTOR, **_FORGOTTEN},
    "aio_poll": {
        "entry_ns": ("epoll_ctlv.entry_ns", "call.crossing_ns"),
        "add_ns": _IN_A_VECTOR["add_ns"],
        "call_ns": ("epoll_level.call_ns",),
        "event_ns": ("epoll_level.event_ns",),
    },
    # Assumed: what a submission takes is what it saves, the crossing. So it was with the one kind
    # that was timed, epoll_ctl through the ring of Linux 6.18, in batches of 16 and more. On the
    # counted target a submission takes 258 where crossing takes 229.
    "io_uring": {
        "call_ns": ("epoll_level.call_ns",),
        "submit_ns": ("call.crossing_ns",),
        "complete_ns": ("epoll_level.event_ns",),
        "add_ns": ("epoll_level.add_ns - call.crossing_ns",),
    },
    # What NT takes nobody has measured here: waiting for one packet is waiting for one event, and
    # binding a connection making an entry of an interest set.
    "completion_port": {
        "call_ns": ("epoll_level.call_ns",),
        "complete_ns": ("epoll_level.event_ns",),
        "add_ns": ("epoll_level.add_ns",),
        "switch": ("blocking.switch",),
        "saved_ns": ("blocking.saved_ns",),
    },
}
"""By mechanism, what others lend to it."""

# What recovery polls is built anew each time. It also hears of all that can be written: a bound.
_ARRAY: Sums = {"rebuild": ("rt_signals.poll - poll.scan",)}
# A descriptor is handed over in a message on a UNIX socket: sent and received, each about a read.
_RECOVERY: Sums = _ARRAY | {"transfer_ns": ("call.read_ns + call.read_ns",)}
EXTRAS: dict[str, Sums] = {
    "select": _ARRAY,
    "poll": _ARRAY,
    "rt_signals": _RECOVERY,
    "sigtimedwait4": _RECOVERY,
    # Both make a socket and its file, and neither sleeps.
    "call": {"connect_ns": ("call.accept_ns",)},
}
"""The same of single costs, by their table, where that was measured without them."""

Tables = Mapping[str, Mapping[str, "Cost"]]


def lent(table: str, tables: Tables) -> dict[str, Cost]:
    """Return what *tables* of a profile can lend to another *table*; it may not be all."""
    return _summed(LENDERS.get(table, {}), tables)


def extras(table: str, tables: Tables) -> dict[str, Cost]:
    """Return what *tables* can lend to a *table* that was measured without some of its costs."""
    return _summed(EXTRAS.get(table, {}), tables)


def _summed(lenders: Sums, tables: Tables) -> dict[str, Cost]:
    found = {}
    for name, sums in lenders.items():
        for text in sums:
            signs, keys = _terms(text)
            terms = [tables.get(table, {}).get(cost) for table, cost in keys]
            known = [term for term in terms if term is not None]
            if len(known) == len(terms):
                total = _sum(signs, known, f"lent: {text}")
                if not _falls(total):
                    found[name] = total
                break
    return found


def _falls(cost: Cost) -> bool:
    """Return whether *cost* is less for more: a difference of curves that noise is larger than."""
    return any(more < less for less, more in itertools.pairwise(cost.value))


def _terms(text: str) -> tuple[list[int], list[list[str]]]:
    """Return the sign of each term, and its table and cost."""
    words = f"+ {text}".split()
    signs = [1 if sign == "+" else -1 for sign in words[::2]]
    return signs, [key.split(".") for key in words[1::2]]


def _sum(signs: list[int], terms: list[Cost], source: str) -> Cost:
    """Return the sum of *terms* at the knots of the first one."""
    first = terms[0]

    def total(added: str, taken: str) -> tuple[float, ...]:
        found = np.zeros(len(first.at))
        for sign, term in zip(signs, terms, strict=True):
            values = getattr(term, added if sign > 0 else taken)
            found += sign * np.interp(first.at, term.at, values)
        return tuple(np.maximum(0, found).tolist())

    return first.model_copy(
        update={
            "value": total("value", "value"),
            "low": total("low", "high"),
            "high": total("high", "low"),
            "residual": max(term.residual for term in terms),
            "source": source,
        }
    )
