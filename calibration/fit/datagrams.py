"""From floods to costs of a profile: datagrams, and entries that cost more after a longer pause.

    flood.jsonl ─► prices of packets that come alone ─┬─► datagram_ns, datagram_entry_ns
                        └─► resampled rounds          ├─► entry_since: what an entry costs more,
                                                      │   by microseconds
                                                      └─► 95% intervals

    call ─ enqueue ─► ...signal... ─► CPU stops ─ entry ─ packet ─ packet ─► goes on
    └───────── stop_ns ────────────┘ └─────── what is taken ───────────────┘

    taken = entry_ns(time since the last interrupt) + packets * (packet_ns + segments * segment_ns)

`entry_ns` comes from packets that come alone, at several distances; `segment_ns` from packets of
several datagrams; `packet_ns` from trains, whose interrupts the kernel counted. Held-out floods are
left out.

`datagram_entry_ns` is that of an interrupt soon after another; what it is more later goes into
`entry_since`, which segments pay, too: the benches of packets pause, so what they have measured is
an entry after that pause (packets.py). Beyond the longest time measured an entry gets no
dearer: there the clock's ticks interrupt any thread that computes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from ..points.flood_points import US_NS, FloodPoint
from ..profiles.cost import Cost
from ..records.flood_records import FloodRecord, Quantiles
from ..records.measured_runs import DataError
from .curve_fit import KNOTS_MAX, Floats, bootstrap, choose_knots, fit_curve, tenths

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
    alone = _medians_by_point(rows, lambda p: p.train == 1 and p.segments == 1)
    of_segments = _medians_by_point(rows, lambda p: p.train == 1 and 1e6 / p.rate_per_s <= WARM_US)
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


def _medians_by_point(
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


SINCE = "interrupt.entry_since"
"""The key of what an entry is more, by the microseconds since the last interrupt."""
_ALONE, _TRAINS = "flood: packets that come alone", "flood: trains and packets of several"


def datagram_costs(
    records: Sequence[FloodRecord], *, replicates: int, seed: int
) -> dict[str, Cost]:
    """Return the costs that calibration floods give, by table and name; {} if there are none.

    Parameters
    ----------
    records:
        All of flood.jsonl; held-out floods and rejected ones are not looked at.
    replicates, seed:
        Of the bootstrap over rounds.

    Raises
    ------
    DataError
        If there are some, but too few for a fit.
    """
    rows = [row for row in records if row.accepted and row.point.use == "calibration"]
    if not rows:
        return {}
    central = fit_flood_prices(rows)
    since_us = [round(us) for us in central.since_us]
    knots = choose_knots(since_us, KNOTS_MAX - 1)
    value, residual = _values(central, knots)
    low, high = _intervals(rows, knots, replicates, seed)
    at = ((0,), (0,), (*knots, knots[-1] + 1))
    sources = (_TRAINS, _ALONE, f"{_ALONE}, by the microseconds since the last interrupt")
    costs = {}
    for name, n, source in zip(
        ("interrupt.datagram_ns", "interrupt.datagram_entry_ns", SINCE), at, sources, strict=True
    ):
        part = slice(0, len(n))
        costs[name] = Cost(
            at=n,
            value=tenths(value[part]),
            low=tenths(np.minimum(low, value)[part]),
            high=tenths(np.maximum(high, value)[part]),
            residual=0.0 if name == "interrupt.datagram_ns" else round(residual, 4),
            source=source,
        )
        value, low, high = value[len(n) :], low[len(n) :], high[len(n) :]
    return costs


def _values(prices: FloodPrices, knots: Sequence[int]) -> tuple[Floats, float]:
    """Return the price of a datagram, of its entry, and entry_since at *knots* and beyond."""
    since_us = np.clip(np.round(prices.since_us), knots[0], knots[-1]).astype(int).tolist()
    entry = fit_curve(since_us, prices.entry_ns, knots=knots)
    more_ns = np.array(entry.ns) - entry.ns[0]
    return np.array([prices.taken_ns(1), entry.ns[0], *more_ns, more_ns[-1]]), entry.residual


def _intervals(
    rows: Sequence[FloodRecord], knots: Sequence[int], replicates: int, seed: int
) -> tuple[Floats, Floats]:
    """Return the ends of the 95% intervals when rounds are resampled."""
    rounds = sorted({row.repeat for row in rows})
    of_round = [[row for row in rows if row.repeat == number] for number in rounds]

    def estimate(drawn: NDArray[np.int64]) -> list[float]:
        try:
            again = fit_flood_prices([row for i in drawn for row in of_round[i]])
        except DataError:  # a round that is not whole
            again = fit_flood_prices(rows)
        return [float(ns) for ns in _values(again, knots)[0]]

    return bootstrap(estimate, len(rounds), replicates=replicates, seed=seed, name="floods")
