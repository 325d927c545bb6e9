"""Costs for mechanisms that were not measured, borrowed from calls that do the same work.

    "epoll_level.delete_ns - call.crossing_ns"   the first sum whose costs the profile has

kqueue cannot be measured on Linux, but planners ask for it. Other calls in the profile do the
same work: they add, change and remove an entry of an interest set, or copy an event. The cost is
borrowed from these calls, and every result reports it. It covers the work, not the code: another
kernel may be faster or slower.
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
"""Sums by cost, the best first."""

LENDERS: dict[str, Sums] = {
    name: entry.borrowed for name, entry in CATALOGUE.items() if entry.borrowed
}
"""The borrowed costs by mechanism, declared in its file (models/entry.py)."""

# Recovery builds its array anew each time. Writable descriptors are reported, too: an upper bound.
_ARRAY: Sums = {"rebuild": ("rt_signals.poll - poll.scan",)}
_RECOVERY: Sums = {
    **_ARRAY,
    # A change of a kept array writes an entry and the position of a descriptor, like the server's
    # own list of events. On an EPYC of family 25 the array takes 5 ns (100 to 10,000 entries,
    # random order), the list 10 ns.
    "keep_ns": ("rt_signals.event_ns",),
    # A message on a UNIX socket passes a descriptor (SCM_RIGHTS). Receiving it finds a free number
    # and installs a file there, like accept. Micro descriptor_passed on an EPYC of family 25 under
    # load (getppid 272 ns; 169 ns at rest): sendmsg 2.42 us, recvmsg 3.06 us. At rest: 1.50 and
    # 1.90 us, where these sums are 1.62 and 2.04 us.
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
    # Both create a socket and its file; neither sleeps.
    "call": {"connect_ns": ("call.accept_ns",)},
}
"""Sums for single costs, by table, where a measured table lacks them."""

Tables = Mapping[str, Mapping[str, "Cost"]]


def lent(table: str, tables: Tables) -> dict[str, Cost]:
    """Return the costs of *table* that other *tables* of a profile give; perhaps not all."""
    return _summed(LENDERS.get(table, {}), tables)


def extras(table: str, tables: Tables) -> dict[str, Cost]:
    """Return the costs that a measured *table* lacks and other *tables* give."""
    return _summed(EXTRAS.get(table, {}), tables)


def _summed(lenders: Sums, tables: Tables) -> dict[str, Cost]:
    found = {}
    for name, sums in lenders.items():
        for text in sums:
            signs, keys = _terms(text)
            terms = [tables.get(table, {}).get(cost) for table, cost in keys]
            known = [term for term in terms if term is not None]
            if len(known) == len(terms):
                total = _sum(signs, known, f"borrowed: {text}")
                if not _falls(total):
                    found[name] = total
                break
    return found


def _falls(cost: Cost) -> bool:
    """Return whether *cost* falls with its count: a difference of curves lost in noise."""
    return any(more < less for less, more in itertools.pairwise(cost.value))


def _terms(text: str) -> tuple[list[int], list[list[str]]]:
    """Return the signs of the terms, and the table and cost of each."""
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
