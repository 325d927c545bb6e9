"""What a server does that finds its queue of signals was full, whatever the machine.

    wait_recovers, Q queued, others lost, n watched =
        call_ns + k x signal_ns + E x (give + leave)         heard: told_costs.py
        + flush_ns + (Q + 1 - k) x discard_ns + poll(n)      the recovery: what is left

k is how many signals the call takes, SIGIO first, and E how many connections have news: those with
a signal in the queue, and those whose signal was lost. How the rest is told apart is each target's:
emulated/counted_signals.py, micro_told.py.
Sources: models/signals/overflow_recovery.py, micro/told.c, servers/signal_queue.c.
"""

from __future__ import annotations

from .micro_medians import Medians
from .told_costs import Told

A_CALL = {"rt_signals": 1, "signal_per_fd": 1, "signalfd": 500, "sigtimedwait4": 500}
"""How many signals a call takes at most: servers/*.c."""
_LOST = 8  # signals, beyond those that the queue holds: micro/told.c


def recovery_ns(medians: Medians, name: str, told: Told, queue: int) -> dict[int, float]:
    """Return what a recovery with *queue* signals takes besides hearing and giving, by descriptors.

    Raises
    ------
    FitError
        If the bench is missing.
    """
    n_taken = min(A_CALL[name], queue + 1)
    heard_ns = told.blocking_ns + n_taken * told.notice_ns + (queue + _LOST) * told.listed_ns
    found = medians.points("wait_recovers", "n", {"mechanism": name, "queue": queue})
    return {n: ns - heard_ns for n, ns in found}


def n_discarded(name: str, queue: int) -> int:
    """Return how many of *queue* signals and SIGIO are left to be thrown away."""
    return queue + 1 - min(A_CALL[name], queue + 1)
