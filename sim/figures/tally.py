"""The counts behind a run's metrics, added up chunk by chunk from its records.

    requests    ──► Tally ─┬─ counts: offered, replied, failed, open at both ends of the window
    connections ──► Tally  ├─ replies in each interval of 100 ms
                           └─ durations: of replies, of open requests

The order of the records and their chunks do not matter, so a run may hand over ended records and
forget them. Events at the end of the window still count; later events have not happened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..state.kinds import NONE, Status
from ..state.units import MILLISECOND_NS
from .fates import Fate
from .histogram import Distribution, Histogram, Integers, Values

REPLY_INTERVAL_NS = 100 * MILLISECOND_NS
"""Intervals of the reply rate, as in the measured runs (httperf uses 5 s)."""

FAILURES = (
    Status.TIMEOUT,
    Status.REFUSED,
    Status.RESET,
    Status.DESCRIPTORS,
    Status.DROPPED,
    Status.PORTS,
)
"""How a connection ends without its replies."""

ONE_FOR_ALL = np.zeros(0, np.int64)
"""All clients are at the link, and of one class."""
_OPEN, _REPLIED, _STRANDED = int(Fate.OPEN), int(Fate.REPLIED), int(Fate.STRANDED)


class Progress(NamedTuple):
    """The progress of a server: replies received, and requests waiting.

    `answered` and `answered_late` count replies in the window and in its second half, for requests
    of any due time. waiting counts requests without a reply at the end of the window, waiting_long
    those that have waited through its second half, waiting_through those that have waited through
    all of it.
    """

    answered: int = 0
    answered_late: int = 0
    waiting: int = 0
    waiting_long: int = 0
    waiting_through: int = 0

    def __add__(self, other: tuple[int, ...]) -> Progress:  # type: ignore[override]
        """Return the progress of two parts of the connections together."""
        return Progress(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def progress_of_totals(answered: float, waiting: float) -> Progress:
    """Return the progress of a window with known totals only: replies arrive evenly.

    Waiting requests have waited through all of it only if no reply arrived.
    """
    n_waiting = max(0, round(waiting))
    n_long = 0 if answered > 0 else n_waiting
    return Progress(math.ceil(answered), math.ceil(answered / 2), n_waiting, n_long, n_long)


class Tally:
    """Counts and durations of the window from *begin_ns* to *end_ns* (the end of the run).

    Its records are requests, or connections; see `Tallies`.

    Parameters
    ----------
    begin_ns, end_ns:
        The window, in ns from the start of the run.
    n_paths, n_classes:
        Numbers of paths and of classes of clients, each with its own tally; 0: none.
    exact:
        Whether every duration is kept (8 bytes each), or a histogram with quantiles within 0.025%
        (see `sim.histogram`). All other values are exact in both cases.

    Attributes
    ----------
    n_offered:
        Records due in the window.
    n_replied, n_replied_late:
        Records with a reply in the window, and in its second half, of any due time.
    n_failed:
        Failed records due in the window, by `FAILURES`.
    n_stranded:
        Stranded records due in the window: `Fate.STRANDED`.
    n_gave_up:
        Records due before the window that failed in it.
    n_open_begin, n_open_end:
        Records, due before, that had not ended at each end of the window.
    n_open_long, n_open_through:
        Open records at its end that were due before its second half, and before it.
    n_by_interval:
        Replies in each interval of `interval_ns`, shape (intervals,); the rest of the window after
        the last whole interval is not counted.
    latency, waiting:
        For records due in the window: time from due to the reply; time from due to *end_ns* for
        open records.
    of_paths, of_classes:
        The records of each path, and of each class of clients, by themselves; shape (n_paths,) and
        (n_classes,).

    Raises
    ------
    ValueError
        If the window is empty or begins before the run.
    """

    def __init__(
        self, begin_ns: int, end_ns: int, exact: bool, n_paths: int = 0, n_classes: int = 0
    ) -> None:
        if not 0 <= begin_ns < end_ns:
            raise ValueError(f"a window needs 0 <= begin < end, got {begin_ns} to {end_ns} ns")
        self.begin_ns = begin_ns
        self.end_ns = end_ns
        self.exact = exact
        self.n_offered = 0
        self.n_replied = 0
        self.n_replied_late = 0
        self.n_failed = dict.fromkeys(FAILURES, 0)
        self.n_stranded = 0
        self.n_gave_up = 0
        self.n_open_begin = 0
        self.n_open_end = 0
        self.n_open_long = 0
        self.n_open_through = 0
        self.interval_ns = min(REPLY_INTERVAL_NS, end_ns - begin_ns)
        self.n_by_interval: Integers = np.zeros(
            (end_ns - begin_ns) // self.interval_ns, dtype=np.int64
        )
        self.latency = self._distribution()
        self.waiting = self._distribution()
        self.of_paths = tuple(Tally(begin_ns, end_ns, exact) for _ in range(n_paths))
        self.of_classes = tuple(Tally(begin_ns, end_ns, exact) for _ in range(n_classes))

    def add(
        self,
        due_ns: Integers,
        ended_ns: Integers,
        fates: NDArray[np.integer],
        path: Integers = ONE_FOR_ALL,
        client_class: Integers = ONE_FOR_ALL,
    ) -> None:
        """Add records, each once: when it has ended, or at the end of the run.

        Parameters
        ----------
        due_ns, ended_ns:
            Due time and end of each, shape (n,), in ns; -1 if never.
        fates:
            The `Fate` of each, shape (n,). A record that ended after the window is open.
        path, client_class:
            The path of each, shape (n,), where there are paths; and its class.

        Raises
        ------
        ValueError
            If one ended before it was due.
        """
        for of_each, parts in ((path, self.of_paths), (client_class, self.of_classes)):
            for number, part in enumerate(parts):
                mine = of_each == number
                part.add(due_ns[mine], ended_ns[mine], fates[mine])
        # Nearly all records have replies, and take a path with fewer tests.
        answered = (fates == _REPLIED) & (ended_ns <= self.end_ns)
        if not answered.all():
            rest = ~answered
            self._add_unanswered(due_ns[rest], ended_ns[rest], fates[rest])
            due_ns, ended_ns = due_ns[answered], ended_ns[answered]
        self._add_answered(due_ns, ended_ns)

    def _add_answered(self, due_ns: Integers, reply_ns: Integers) -> None:
        """Count records with a reply by the end of the window."""
        due = self._is_due(due_ns)
        if not due.all():
            in_window = reply_ns >= self.begin_ns
            before = (due_ns != NONE) & (due_ns < self.begin_ns)
            self.n_open_begin += _number(before & in_window)
            self._add_replies(reply_ns[in_window & ~due])
            due_ns, reply_ns = due_ns[due], reply_ns[due]
        self.n_offered += due_ns.size
        self.latency.add(reply_ns - due_ns)
        self._add_replies(reply_ns)

    def _add_unanswered(
        self, due_ns: Integers, ended_ns: Integers, fates: NDArray[np.integer]
    ) -> None:
        """Count records that failed, or were open at the end of the window."""
        is_open = (fates == _OPEN) | (fates == _STRANDED) | (ended_ns > self.end_ns)
        due = self._is_due(due_ns)
        before = (due_ns != NONE) & (due_ns < self.begin_ns)
        self.n_offered += _number(due)
        self.n_open_begin += _number(before & (is_open | (ended_ns >= self.begin_ns)))
        open_end = (before | due) & is_open
        self.n_open_end += _number(open_end)
        self.n_open_long += _number(open_end & (due_ns < self._middle_ns))
        self.n_open_through += _number(before & is_open)
        for kind in FAILURES:
            self.n_failed[kind] += _number(due & ~is_open & (fates == int(kind)))
        self.n_stranded += _number(due & (fates == _STRANDED))
        self.n_gave_up += _number(before & ~is_open & (ended_ns >= self.begin_ns))
        self.waiting.add(self.end_ns - due_ns[due & is_open])

    @property
    def progress(self) -> Progress:
        """The number of records with a reply, and of waiting ones."""
        waiting = self.n_open_end, self.n_open_long, self.n_open_through
        return Progress(self.n_replied, self.n_replied_late, *waiting)

    def fates(self) -> dict[Fate, int]:
        """Return the number of records due in the window by fate: together `n_offered`."""
        found = {Fate(kind): n for kind, n in self.n_failed.items()}
        found[Fate.REPLIED] = self.latency.n
        found[Fate.OPEN] = self.waiting.n - self.n_stranded
        found[Fate.STRANDED] = self.n_stranded
        return {fate: found[fate] for fate in Fate}

    def quantiles_due_ns(self, probabilities: Sequence[float]) -> list[float]:
        """Return quantiles of the waits of all records due in the window; NaN for none.

        A failed record counts as infinite, an open one as its wait until the end. The quantile is
        the value of rank ceil(p (n - 1)): there is no value between a time and infinity.
        """
        if self.n_offered == 0:
            return [math.nan for _ in probabilities]
        ended = self._distribution()
        ended.merge(self.latency)
        ended.merge(self.waiting)
        ranks = [math.ceil((self.n_offered - 1) * p) for p in probabilities]
        there = iter(ended.order_statistics([rank for rank in ranks if rank < ended.n]))
        return [next(there) if rank < ended.n else math.inf for rank in ranks]

    @property
    def _middle_ns(self) -> int:
        return (self.begin_ns + self.end_ns) // 2

    def _is_due(self, at_ns: Integers) -> NDArray[np.bool_]:
        return (at_ns >= self.begin_ns) & (at_ns < self.end_ns)

    def _add_replies(self, done_ns: Integers) -> None:
        self.n_replied += done_ns.size
        self.n_replied_late += _number(done_ns >= self._middle_ns)
        n = self.n_by_interval.size
        index = (done_ns - self.begin_ns) // self.interval_ns
        counts = np.bincount(index, minlength=n)
        # As in numpy.histogram the last interval holds its end, too.
        counts[n - 1] += _number(done_ns == self.begin_ns + n * self.interval_ns)
        self.n_by_interval += counts[:n]

    def _distribution(self) -> Distribution:
        return Values() if self.exact else Histogram()


class Tallies:
    """The tallies of a run: of its requests, and of its connections; parameters as of `Tally`.

    Attributes
    ----------
    requests:
        Each from its due time to its reply.
    connections:
        Each from the due time of its first request to its last reply.
    connects:
        Times from due to the SYN-ACK of connections due in the window, in ns.
    """

    def __init__(
        self, begin_ns: int, end_ns: int, exact: bool, n_paths: int = 0, n_classes: int = 0
    ) -> None:
        self.requests = Tally(begin_ns, end_ns, exact, n_paths, n_classes)
        self.connections = Tally(begin_ns, end_ns, exact)
        self.connects: Distribution = Values() if exact else Histogram()

    def add_connections(
        self,
        intended_ns: Integers,
        connected_ns: Integers,
        done_ns: Integers,
        fates: NDArray[np.integer],
    ) -> None:
        """Take records of connections, each once; all of shape (n,), as for `Tally.add`."""
        tally = self.connections
        tally.add(intended_ns, done_ns, fates)
        in_window = (intended_ns >= tally.begin_ns) & (intended_ns < tally.end_ns)
        # One that was connected at 0 was open before the run.
        in_window &= (connected_ns > 0) & (connected_ns <= tally.end_ns)
        self.connects.add((connected_ns - intended_ns)[in_window])


def _number(mask: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(mask))
