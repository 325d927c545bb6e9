"""From floods to costs of a profile: datagrams, and entries dearer the longer ago the last one was.

    flood.jsonl ─► prices (flood_costs.py) ─┬─► datagram_ns, datagram_entry_ns
                      └─► resampled rounds  └─► entry_since: what an entry is more, by microseconds
                                            └─► 95% intervals

`datagram_entry_ns` is that of an interrupt soon after another; what it is more later goes into
`entry_since`, which segments pay, too: the benches of packets pause, so what they have measured is
an entry after that pause (micro_packets.py). Beyond the longest time measured an entry gets no
dearer: there the clock's ticks interrupt whoever computes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..profiles.cost import Cost
from ..records.flood_records import FloodRecord
from ..records.measured_runs import DataError
from .curve_fit import KNOTS_MAX, Floats, bootstrap, choose_knots, fit_curve
from .flood_costs import FloodPrices, fit_flood_prices

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
            value=_tenths(value[part]),
            low=_tenths(np.minimum(low, value)[part]),
            high=_tenths(np.maximum(high, value)[part]),
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


def _tenths(values: Floats) -> tuple[float, ...]:
    return tuple(round(float(value), 1) for value in values)
