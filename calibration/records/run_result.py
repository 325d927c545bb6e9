"""From the load generator's records to the result of a run: pure arithmetic, no processes.

intended ──► started ──► connected ──► done          offered: intended in the window
    └────────── latency_ns ──────────────┘           replied: done in the window
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..testbed.processes import RunError
from .measured_runs import (
    ClientTimes,
    CpuTimes,
    ErrorCounts,
    Gaps,
    Latency,
    ReplyRate,
    RunResult,
)

P999_REPLIES_LEAST = 10_000
"""The least number of replies for p99.9: fewer leave ten or less beyond it."""
INTERVAL_NS = 100_000_000  # of the reply rate's statistics; httperf uses 5 s in much longer runs
_GAP_BYTES = 16
_GAP_KEPT_NS = 50_000
"""Limit of stored gaps. Few exceed it: 1.9 of 48 gaps above 20 us a second (client beside spinning
in measured/epyc-family25-model17-2cpu-linux-6.18/gaps.jsonl). The rest would be nine tenths of all
records."""
_COLUMNS = ("intended_ns", "started_ns", "connected_ns", "done_ns", "status")
LEVELS = ("connections_open",)
"""Counters that are levels, whose differences have no meaning."""
REPLIED, TIMEOUT, REFUSED, RESET, DESCRIPTORS, STILL_OPEN = range(6)


@dataclass(frozen=True)
class Window:
    """The measured part of a run, from its start.

    Connections due in its first `untimed_ns` count, but their response times and lateness are
    omitted: the harness then reads counters, which takes the clients' CPU for 1 to 2 ms.
    """

    begin_ns: int
    end_ns: int
    untimed_ns: int = 0

    @property
    def length_ns(self) -> int:
        """The length of the window."""
        return self.end_ns - self.begin_ns

    def contains(self, times_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of *times_ns* are in the window, its end excluded."""
        return (times_ns >= self.begin_ns) & (times_ns < self.end_ns)

    def times(self, due_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of *due_ns* count for response times and lateness."""
        return self.contains(due_ns) & (due_ns >= self.begin_ns + self.untimed_ns)


@dataclass(frozen=True)
class Records:
    """The columns of a `--records` file (connections) or of a `--requests` file (requests).

    Requests have the times due, reached by the generator, sent, and replied to.
    """

    intended_ns: NDArray[np.int64]
    started_ns: NDArray[np.int64]
    connected_ns: NDArray[np.int64]
    done_ns: NDArray[np.int64]
    status: NDArray[np.int64]

    def until(self, end_ns: int) -> Records:
        """Return the records at *end_ns*: connections with later replies are still open."""
        later = (self.status == REPLIED) & (self.done_ns >= end_ns)
        return replace(
            self,
            done_ns=np.where(later, -1, self.done_ns),
            status=np.where(later, STILL_OPEN, self.status),
        )


def difference(
    before: dict[str, int], after: dict[str, int], *, levels: Sequence[str] = ()
) -> dict[str, int]:
    """Return the counts from *before* to *after*; for *levels* the values after."""
    return {
        name: value if name in levels else value - before[name] for name, value in after.items()
    }


def read_records(path: Path) -> Records:
    """Return the records that `load` wrote, or raise `RunError` if they are not whole."""
    if not path.is_file():
        raise RunError(f"load wrote no {path.name}")
    content = path.read_bytes()
    row_bytes = 8 * len(_COLUMNS)
    if not content or len(content) % row_bytes:
        raise RunError(f"the records are {len(content)} bytes, not rows of {row_bytes}")
    table = np.frombuffer(content, dtype="<i8").reshape(-1, len(_COLUMNS)).astype(np.int64)
    return Records(*(table[:, column] for column in range(len(_COLUMNS))))


def read_gaps(path: Path, counted: Mapping[str, int]) -> Gaps:
    """Return the gaps that a generator wrote to *path*; *counted* are its printed totals.

    Raises
    ------
    RunError
        If the file is truncated.
    """
    content = path.read_bytes() if path.is_file() else b"-"
    if len(content) % _GAP_BYTES:
        raise RunError(f"the file of gaps must hold rows of {_GAP_BYTES} bytes, got {len(content)}")
    rows = np.frombuffer(content, dtype="<i8").reshape(-1, 2)
    above_ns = max(counted["above_ns"], _GAP_KEPT_NS)
    rows = rows[rows[:, 1] > above_ns]
    return Gaps(
        above_ns=above_ns,
        n=counted["n"],
        lost_ns=counted["lost_ns"],
        at_ns=rows[:, 0].tolist(),
        length_ns=rows[:, 1].tolist(),
    )


def result_of(
    records: Records,
    window: Window,
    *,
    calls: dict[str, int],
    cpu: CpuTimes,
    client_cpu_ns: int,
    requests: int = 1,
    connections_failed: int | None = None,
) -> RunResult:
    """Return the result of a run from its records and the counters of its window.

    *requests* is the number of replies in a record.
    """
    in_window = window.contains(records.intended_ns)
    status, n_offered = records.status[in_window], int(in_window.sum())
    replied = (records.status == REPLIED) & window.contains(records.done_ns)
    is_timed = window.times(records.intended_ns)
    started = is_timed & (records.started_ns >= 0)
    lag_ns = (records.started_ns - records.intended_ns)[started]
    latency_ns = (records.done_ns - records.intended_ns)[is_timed & (records.status == REPLIED)]
    return RunResult(
        offered=n_offered,
        accepted=calls["accepts"],
        # A record is a connection; only the server counts the replies of a kept connection.
        replied=calls["replies"] if requests > 1 else int(replied.sum()),
        unfinished=int((status == STILL_OPEN).sum()),
        errors=ErrorCounts(
            timeout=int((status == TIMEOUT).sum()),
            refused=int((status == REFUSED).sum()),
            reset=int((status == RESET).sum()),
            descriptors=int((status == DESCRIPTORS).sum()),
        ),
        latency_ns=_latency(latency_ns),
        reply_rate_per_s=_reply_rate(records.done_ns[replied], window, requests),
        calls=calls,
        cpu=cpu,
        client=ClientTimes(
            cpu_ns=client_cpu_ns,
            **_lags(lag_ns),
        ),
        connections_failed=connections_failed,
    )


def _lags(lag_ns: NDArray[np.int64]) -> dict[str, int]:
    """Return the generator's lateness as fields of `ClientTimes`; 0 if nothing was due."""
    names = ("lag_p50_ns", "lag_p99_ns", "lag_p999_ns", "lag_max_ns")
    values = np.quantile(lag_ns, (0.5, 0.99, 0.999, 1)) if lag_ns.size else np.zeros(len(names))
    return {name: int(value) for name, value in zip(names, values, strict=True)}


def n_failed(records: Records) -> int:
    """Return how many of *records* failed before the end of the run."""
    return int(np.isin(records.status, (TIMEOUT, REFUSED, RESET, DESCRIPTORS)).sum())


def _latency(latency_ns: NDArray[np.int64]) -> Latency | None:
    """Return the quantiles of *latency_ns*, or None without replies."""
    if not latency_ns.size:
        return None
    p50, p90, p99 = np.quantile(latency_ns, (0.5, 0.9, 0.99))
    return Latency(
        mean=float(latency_ns.mean()),
        p50=float(p50),
        p90=float(p90),
        p99=float(p99),
        p999=float(np.quantile(latency_ns, 0.999))
        if latency_ns.size >= P999_REPLIES_LEAST
        else None,
        max=float(latency_ns.max()),
    )


def _reply_rate(done_ns: NDArray[np.int64], window: Window, requests: int) -> ReplyRate:
    """Return the mean rate of the whole window, and the spread over its intervals."""
    mean = requests * done_ns.size / (window.length_ns / 1e9)
    n_intervals = window.length_ns // INTERVAL_NS
    if n_intervals < 1:
        return ReplyRate(min=mean, mean=mean, max=mean, sd=0, interval_ns=window.length_ns)
    edges = window.begin_ns + INTERVAL_NS * np.arange(n_intervals + 1)
    rates = requests * np.histogram(done_ns, edges)[0] / (INTERVAL_NS / 1e9)
    return ReplyRate(
        min=float(rates.min()),
        mean=mean,
        max=float(rates.max()),
        sd=float(rates.std(ddof=1)) if n_intervals > 1 else 0,
        interval_ns=INTERVAL_NS,
    )
