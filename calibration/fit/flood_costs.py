"""What an interrupt takes from whom it interrupts: prices fitted to trains that come alone.

    call ─ enqueue ─► ...signal... ─► CPU stops ─ entry ─ packet ─ packet ─► goes on
    └───────── stop_ns ────────────┘ └─────── what is taken ───────────────┘

    taken = entry_ns(time since the last interrupt) + packets * (packet_ns + segments * segment_ns)

`entry_ns` comes from packets that come alone, at several distances; `segment_ns` from packets of
several datagrams; `packet_ns` from trains, whose interrupts the kernel counted. Held-out floods are
not looked at.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from ..points.flood_points import US_NS, FloodPoint
from ..records.flood_records import FloodRecord, Quantiles
from ..records.measured_runs import DataError
from .curve_fit import fit_curve

WARM_US = 200
"""Between packets: up to here an entry hardly gets dearer with the time since the last one."""

_SPREAD = (0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class FloodPrices:
    """Prices in ns: on the CPU that receives, and of the calls that send.

    `entry_ns[i]` is that of an interrupt `since_us[i]` microseconds after the end of the last one,
    straight lines between. `spread` are factors of it, equally likely, by which runs differ:
    within an hour entries took 6 us in some and 8 us in others.
    `stop_ns` runs from the begin of the call to the stop of the other CPU, `calling_ns` is a call
    that has to signal the other CPU, `call_ns` one that finds it at work.
    """

    since_us: tuple[float, ...]
    entry_ns: tuple[float, ...]
    spread: tuple[float, ...]
    packet_ns: float
    segment_ns: float
    stop_ns: float
    calling_ns: float
    call_ns: float

    def taken_ns(self, segments: int) -> float:
        """Return what one more packet of so many datagrams takes in an interrupt."""
        return self.packet_ns + segments * self.segment_ns

    def of_each_run(self) -> list[FloodPrices]:
        """Return the prices of runs as they may turn out, equally likely."""
        return [
            replace(self, entry_ns=tuple(factor * ns for ns in self.entry_ns), spread=(1.0,))
            for factor in self.spread
        ]

    @property
    def enqueued_ns(self) -> float:
        """When in a call the packet is in the queue: the way down is half of what a call takes."""
        return self.call_ns / 2


def fit_flood_prices(records: Sequence[FloodRecord]) -> FloodPrices:
    """Return the prices that explain the accepted calibration floods among *records* best.

    Raises
    ------
    DataError
        If there are too few of them: packets alone at two distances at least, trains, segments.
    """
    rows = [r for r in records if r.accepted and r.point.use == "calibration" and r.train]
    alone = _medians(rows, lambda p: p.train == 1 and p.segments == 1)
    of_segments = _medians(rows, lambda p: p.train == 1 and 1e6 / p.rate_per_s <= WARM_US)
    trains = [r for r in rows if r.point.train > 1]
    warm = [r for r in rows if r.point.train == 1 and 1e6 / r.point.rate_per_s <= WARM_US]
    if len(alone) < 2 or not trains or len({point.segments for point in of_segments}) < 2:
        raise DataError(
            "flood.jsonl: calibration floods are missing (packets alone, trains, segments): "
            "`dispatchsim measure flood` goes on"
        )
    segment_ns = float(
        np.polyfit([p.segments for p in of_segments], list(of_segments.values()), 1)[0]
    )
    packet_ns = _packet_ns([*trains, *(r for r in warm if r.point.segments == 1)], segment_ns)
    first_ns = packet_ns + segment_ns
    periods = sorted(alone, key=lambda point: -point.rate_per_s)
    since_us = [(1e9 / p.rate_per_s - alone[p]) / US_NS for p in periods]
    # What an entry needs has left the caches the more the longer ago: it gets no cheaper with time.
    entry = fit_curve(
        [round(us) for us in since_us], [max(0.0, alone[p] - first_ns) for p in periods]
    )
    warm_alone = [r for r in warm if r.point.segments == 1]
    typical_ns = statistics.median(_taken(r).p50 for r in warm_alone)
    return FloodPrices(
        since_us=tuple(float(us) for us in entry.at),
        entry_ns=entry.ns,
        spread=tuple(
            np.quantile(
                [(_taken(r).p50 - first_ns) / (typical_ns - first_ns) for r in warm_alone], _SPREAD
            ).tolist()
        ),
        packet_ns=packet_ns,
        segment_ns=segment_ns,
        stop_ns=statistics.median(r.train.delay_ns.p50 for r in warm_alone if r.train),
        calling_ns=statistics.median(r.sender.call_ns.p50 for r in warm_alone),
        call_ns=statistics.median(r.sender.call_ns.p10 for r in trains if r.point.train > 2),
    )


def _medians(
    rows: Sequence[FloodRecord], chosen: Callable[[FloodPoint], bool]
) -> dict[FloodPoint, float]:
    """Return of each chosen flood the median over rounds of what a train takes, itself a median."""
    points = dict.fromkeys(row.point for row in rows if chosen(row.point))
    return {p: statistics.median(_taken(r).p50 for r in rows if r.point == p) for p in points}


def _packet_ns(rows: Sequence[FloodRecord], segment_ns: float) -> float:
    """Return the price of a packet: what trains take beyond the entries of their interrupts.

    Interrupts of a train follow each other at once; so one entry is for all, and is fitted beside.
    """
    counts, taken_ns = [], []
    for row in rows:
        n_trains = row.sender.sent / row.point.train
        n_interrupts = min(row.kernel.calls / n_trains, row.point.train)
        counts.append((max(n_interrupts, 1.0), row.point.train))
        taken_ns.append(_taken(row).p50 - row.point.train * segment_ns)
    weights = 1 / np.maximum(taken_ns, 1.0)  # an error of 1% counts the same in each
    (_, packet_ns), _ = nnls(np.array(counts) * weights[:, None], np.array(taken_ns) * weights)
    return float(packet_ns)


def _taken(row: FloodRecord) -> Quantiles:
    assert row.train is not None
    return row.train.taken_ns
