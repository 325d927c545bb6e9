"""What it costs a server to recover from a full queue of signals, whatever the machine.

                        median                        is in the model
    wait_recovers       Q queued, others lost,        call_ns + k x signal_ns + flush_ns
                        n watched                     + (Q + 1 - k) x discard_ns + poll(n)
                                                      + E x (give + leave)

k is how many signals the call takes, SIGIO first, and E how many connections have news: those with
a signal in the queue, and those whose signal was lost.
Sources: models/overflow_recovery.py, micro/told.c, servers/signal_queue.c.
"""

from __future__ import annotations

from .curve_fit import fit_intercept_curve
from .micro_medians import Medians, columns
from .micro_solution import Fitted, Known, constant
from .told_costs import Told

A_CALL = {"rt_signals": 1, "signal_per_fd": 1, "signalfd": 500, "sigtimedwait4": 500}
"""How many signals a call takes at most: servers/*.c."""
_LOST = 8  # signals, beyond those that the queue holds: micro/told.c


def recovery_costs(medians: Medians, name: str, told: Told) -> Known:
    """Price a flush, what it throws away, and the poll of all.

    Raises
    ------
    FitError
        If a bench is missing.
    """
    own: dict[str, int | str] = {"mechanism": name}
    queues = columns(medians.points("wait_recovers", "queue", own, least=2))[0]

    def rest(queue: int) -> dict[int, float]:
        """Return what is left of a recovery without hearing and giving, by descriptors."""
        where = {**own, "queue": queue}
        n_taken = min(A_CALL[name], queue + 1)
        known_ns = told.blocking_ns + n_taken * told.notice_ns + (queue + _LOST) * told.listed_ns
        return {n: ns - known_ns for n, ns in medians.points("wait_recovers", "n", where)}

    def n_discarded(queue: int) -> int:
        return queue + 1 - min(A_CALL[name], queue + 1)

    short, long = rest(queues[0]), rest(queues[-1])
    (n, long_ns), *_ = long.items()
    discard_ns = max(0.0, (long_ns - short[n]) / (n_discarded(queues[-1]) - n_discarded(queues[0])))
    totals = [ns - n_discarded(queues[0]) * discard_ns for ns in short.values()]
    flush_ns, poll = fit_intercept_curve(list(short), totals)
    return {
        f"{name}.flush_ns": constant(flush_ns, poll.residual, "wait_recovers"),
        f"{name}.discard_ns": constant(discard_ns, 0.0, "wait_recovers over queue"),
        f"{name}.poll": Fitted(poll.at, poll.ns, poll.residual, "wait_recovers over n"),
    }
