"""Raw results of overload on disk: `overload.jsonl`, one OverloadRecord a line.

records of the generator ─┬─ connect_bins, reply_bins   durations, in tenths of a second
                          └─ started, replied           counts in each tenth of a second
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..points.overload_points import StoredOverloadPoint
from ..points.point import Steering
from .measured_runs import Frozen, MeasuredRun, RunResult
from .run_result import REPLIED, Records, Window

OVERLOAD_FILE = "overload.jsonl"
BIN_NS = 100_000_000


class Delays(Frozen):
    """The durations of connections intended within `begin_ns` and `end_ns`.

    `connect_bins[i]` counts connections established in the i-th tenth of a second after their start
    (from 0). `reply_bins[i]` counts connections with their last reply in the i-th tenth after their
    intended start. Connections in no bin did not get that far. `n` counts all connections,
    `n_without_descriptor` those that did not start.
    """

    begin_ns: int
    end_ns: int
    n: int
    n_without_descriptor: int
    connect_bins: list[int]
    reply_bins: list[int]


class KernelCounts(Frozen):
    """The kernel's counts over the whole run, by side; unchanged counters are omitted.

    `server` and `client` are counters of each side's network namespace, by their names in
    /proc/net/netstat and /proc/net/snmp. ListenOverflows counts overflows of the accept queue,
    TCPSynRetrans retransmitted SYNs, SyncookiesSent SYN-ACKs without stored state. `softnet_drops`
    are packets that found the queue of the server's CPU full (/proc/net/softnet_stat). Packet
    clients have no kernel: `client` then has their own count of retransmitted SYNs.
    """

    server: dict[str, int]
    client: dict[str, int]
    softnet_drops: int


class OverloadRecord(MeasuredRun[StoredOverloadPoint]):
    """One run: its point, the capacity before and after it, its measurements, the gate's verdict.

    Capacities and `rate_per_s` (the point's load times the capacity before) are in connections/s.
    `started` and `replied` are counted in each tenth of a second of the whole run.
    """

    format: Literal["dispatchsim-overload/2"] = "dispatchsim-overload/2"
    steering: Steering
    capacity_before_per_s: float
    capacity_after_per_s: float
    rate_per_s: float
    run_ns: int
    warm_up_ns: int
    result: RunResult
    delays: Delays
    started: list[int]
    replied: list[int]
    kernel: KernelCounts


def delays_of(records: Records, window: Window, run_ns: int) -> Delays:
    """Return the durations of connections intended in *window*, in a run of *run_ns*."""
    chosen = window.contains(records.intended_ns)
    connected = chosen & (records.connected_ns >= 0)
    replied = chosen & (records.status == REPLIED)
    return Delays(
        begin_ns=window.begin_ns,
        end_ns=window.end_ns,
        n=int(chosen.sum()),
        n_without_descriptor=int((chosen & (records.started_ns < 0)).sum()),
        connect_bins=_bins((records.connected_ns - records.started_ns)[connected], run_ns),
        reply_bins=_bins((records.done_ns - records.intended_ns)[replied], run_ns),
    )


def started_bins(records: Records, run_ns: int) -> list[int]:
    """Return the number of connections started in each tenth of a second of the run."""
    return _bins(records.started_ns[records.started_ns >= 0], run_ns)


def replied_bins(records: Records, run_ns: int) -> list[int]:
    """Return the number of connections with their last reply in each tenth of a second."""
    return _bins(records.done_ns[records.status == REPLIED], run_ns)


def _bins(times_ns: NDArray[np.int64], run_ns: int) -> list[int]:
    n_bins = -(-run_ns // BIN_NS)
    return [int(n) for n in np.bincount(times_ns // BIN_NS, minlength=n_bins)]
