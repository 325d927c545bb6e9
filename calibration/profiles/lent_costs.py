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

from ...models.catalogue import CATALOGUE

if TYPE_CHECKING:
    from .cost import Cost

Sums = Mapping[str, tuple[str, ...]]
"""By cost: what to add up, the best first."""

LENDERS: dict[str, Sums] = {
    name: entry.borrowed for name, entry in CATALOGUE.items() if entry.borrowed
}
"""By mechanism, what others lend to it: its file declares that (models/entry.py)."""

# What recovery polls is built anew each time. It also hears of all that can be written: a bound.
_ARRAY: Sums = {"rebuild": ("rt_signals.poll - poll.scan",)}
_RECOVERY: Sums = {
    **_ARRAY,
    # A change of a kept array writes an entry and the place of a descriptor, as a server's own list
    # of events does. On an EPYC of family 25 the one takes 5 ns (array of 100 to 10,000, in random
    # order), the other 10 ns.
    "keep_ns": ("rt_signals.event_ns",),
    # A descriptor is handed over in a message on a UNIX socket (SCM_RIGHTS). To receive it finds a
    # free number and installs a file there, as accept does. An EPYC of family 25 under load, whose
    # getppid took 272 ns (169 at rest), took 2.42 us for sendmsg and 3.06 us for recvmsg
    # (micro descriptor_passed): at rest 1.50 and 1.90 us, where these sums are 1.62 and 2.04 us.
    "send_fd_ns": ("call.read_ns + call.read_ns",),
    "receive_fd_ns": ("call.accept_ns",),
}
EXTRAS: dict[str, Sums] = {
    "select": _ARRAY,
    "poll": _ARRAY,
    **dict.fromkeys(
        ("rt_signals", "rt_signals_handler", "signal_per_fd", "sigtimedwait4", "signalfd"),
        _RECOVERY,
    ),
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
