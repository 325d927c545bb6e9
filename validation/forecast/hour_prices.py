"""A profile at the costs of the hour of a run, by the short benchmarks around it.

    around ─┐
            ├─► ratios ─► profile x ratios: the forecast as if the machine had been
    micro ──┘             calibrated in that hour

A busy shared cache makes scans slower, a busy host interrupts. A host that gives an idle CPU away
sooner makes leaving idleness slower. A smaller error shows that the hour explains a part of it, not
how much: short benchmarks are noisy themselves, and errors of the model may cancel. Costs of the
application and of calls follow the measured calls; costs of clients and of the link stay the same.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...calibration.measure.surroundings import BENCHES
from ...calibration.profiles.cost import Cost
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import MicroResult, RunRecord

_SCANNING = ("scan", "register", "bitmap", "poll")
"""The costs of a mechanism that grow with each descriptor."""
_IDLE_EXITS = ("idle_exit_ns", "idle_exit_since")
_UNCHANGED = ("client", "network")


class HourPrices(NamedTuple):
    """Costs around runs over those of the calibration; 1: unchanged.

    `idle_exit` is None where it was not measured: these costs then follow `interrupt`.
    """

    calls: float
    scan: float
    interrupt: float
    idle_exit: float | None = None


def calibration_prices(micro: Iterable[MicroResult]) -> Mapping[str, float]:
    """Return the results of the short benchmarks in a calibration, in ns, by name.

    A benchmark that was not measured is left out.
    """
    names = {command: name for name, command in BENCHES.items()}
    sums: dict[tuple[str, int], float] = {}
    for row in micro:
        name = names.get(row.in_full)
        if name is not None:
            sums[name, row.round] = sums.get((name, row.round), 0.0) + row.median
    rounds: dict[str, list[float]] = {}
    for (name, _), price_ns in sums.items():
        rounds.setdefault(name, []).append(price_ns)
    return {name: statistics.median(prices) for name, prices in rounds.items()}


def prices_beside(run: RunRecord) -> Mapping[str, float]:
    """Return the mean result before and after *run*, in ns by the name of the benchmark."""
    return {name: statistics.mean(prices) for name, prices in (run.around or {}).items()}


def hour_prices(runs: Sequence[RunRecord], calibrated: Mapping[str, float]) -> HourPrices | None:
    """Return the median ratio of each result around *runs* to the *calibrated* one.

    None if a run or the calibration lacks a benchmark other than the handshakes.
    """
    ratios: dict[str, list[float]] = {"calls": [], "scan": [], "interrupt": []}
    exits: list[float] = []
    then_ns = _idle_exit_ns(calibrated)
    for run in runs:
        beside = prices_beside(run)
        for name, found in ratios.items():
            if name not in beside or not calibrated.get(name):
                return None
            found.append(beside[name] / calibrated[name])
        now_ns = _idle_exit_ns(beside)
        exits += [now_ns / then_ns] if then_ns > 0 and not math.isnan(now_ns) else []
    if not runs:
        return None
    medians = {name: statistics.median(found) for name, found in ratios.items()}
    known = len(exits) == len(runs)
    return HourPrices(**medians, idle_exit=statistics.median(exits) if known else None)


def _idle_exit_ns(found: Mapping[str, float]) -> float:
    """Return what an idle CPU adds to a handshake, at least 0; NaN if unknown."""
    if not {"handshake", "handshake_idle"} <= found.keys():
        return math.nan
    return max(0.0, found["handshake_idle"] - found["handshake"])


def at_hour(profile: Profile, prices: HourPrices) -> Profile:
    """Return *profile* with costs and intervals multiplied by the ratios."""
    tables = {
        table: {name: _times(cost, _ratio(table, name, prices)) for name, cost in costs.items()}
        for table, costs in profile.cost.items()
    }
    return profile.model_copy(update={"cost": tables})


def _ratio(table: str, name: str, prices: HourPrices) -> float:
    if table in _UNCHANGED:
        return 1.0
    if table == "interrupt":
        if name in _IDLE_EXITS and prices.idle_exit is not None:
            return prices.idle_exit
        return prices.interrupt
    return prices.scan if name in _SCANNING else prices.calls


def _times(cost: Cost, ratio: float) -> Cost:
    columns = {
        column: tuple(ns * ratio for ns in getattr(cost, column))
        for column in ("value", "low", "high")
    }
    return cost.model_copy(update=columns)
