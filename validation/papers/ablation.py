"""Rules of the mechanisms, each to be switched off: some claim must fail then.

A claim that holds whatever is switched off says nothing of the mechanism; a rule that no claim
needs might as well not be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Ablation(NamedTuple):
    """A rule and what takes it away.

    Attributes
    ----------
    name, says:
        The rule.
    free:
        Patterns of costs that become 0.
    values:
        By mechanism, keys of the scenario that are set instead; "" stands for all mechanisms.
    """

    name: str
    says: str
    free: tuple[str, ...] = ()
    values: Mapping[str, Mapping[str, Any]] = {}


_NO_BOUND = 100_000

ABLATIONS: dict[str, Ablation] = {
    each.name: each
    for each in (
        Ablation(
            "wait-queue registration",
            "a poll that finds nothing ready enters a wait queue for each descriptor",
            free=("*.register", "*.release"),
        ),
        Ablation(
            "hint rule",
            "/dev/poll asks only descriptors that it was given a hint of",
            values={"dev_poll": {"server.mechanism": "dev_poll_unhinted"}},
        ),
        Ablation(
            "signal bound",
            "only so many signals may be queued",
            values={"rt_signals": {"server.signal_queue": _NO_BOUND}},
        ),
        Ablation(
            "SIGIO first",
            "that signals were lost is told before those that are queued",
            values={"rt_signals": {"server.overflow_told": "last"}},
        ),
        Ablation(
            "coalescing",
            "with signal-per-fd, one queued signal stands for all events of its descriptor",
            values={"signal_per_fd": {"server.mechanism": "rt_signals"}},
        ),
        Ablation(
            "batch",
            "a wait returns all that is ready",
            values={"": {"server.max_events": 1}},
        ),
    )
}
"""By name."""
