"""From a wrong metric to the costs and effects to suspect.

    errors of points ─► median of a metric in a regime ─► out of its noise? ─► symptom ─► suspects

`SYMPTOMS` is the table "Start from the wrong metric" of docs/how-to/find-the-wrong-cost.md. Its
order is that of a search: a batch of the wrong size makes every cost of a wait look wrong, a wrong
CPU time shifts response times, and a wrong median shifts all percentiles above it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...calibration.points.point import Point
from ...calibration.records.precision import WITHIN, range_of_repeats
from .regimes import (
    CAPACITY,
    CLOSED,
    CPU,
    EVENTS,
    INTERRUPTS,
    NEAR,
    PAST,
    QUIET,
    regime_of,
    value_of,
)
from .scoring import PointScore

SEGMENT_BYTES = 1448
"""Payload of a TCP segment on Ethernet: longer replies are flights."""
P50, P99 = "p50_ns", "p99_ns"
ORDER = (EVENTS, INTERRUPTS, CPU, CAPACITY, P50, P99)
"""The metrics in the order in which to search: the error of one shifts those after it."""
_ALL = (QUIET, CLOSED, NEAR, PAST)


class Reading(NamedTuple):
    """The relative error of one metric at a point, and the size up to which it may be noise."""

    figure: str
    regime: str
    point: Point
    error: float
    noise: float


class WrongMedian(NamedTuple):
    """A median error that is out of its noise: of one metric in one regime, over *n* points."""

    figure: str
    regime: str
    n: int
    error: float
    noise: float


class Symptom(NamedTuple):
    """A metric that is wrong while others are right, and what to suspect.

    Attributes
    ----------
    wrong, meanwhile:
        Both in words.
    figure, regimes:
        The metric, and the loads at which it is wrong; the first of them counts.
    right, right_at:
        Metrics that must not be wrong at the same load; and (metric, load) known to be right.
    raises, lowers:
        Costs that raise the metric, and costs that lower it.
    too_high, too_low:
        Further suspects, in words, for a forecast that is too high or too low.
    only:
        Whether a point is of the kind to which the error is confined; None: of any kind.
    """

    wrong: str
    meanwhile: str
    figure: str
    regimes: tuple[str, ...]
    right: tuple[str, ...] = ()
    right_at: tuple[tuple[str, str], ...] = ()
    raises: tuple[str, ...] = ()
    lowers: tuple[str, ...] = ()
    too_high: str = ""
    too_low: str = ""
    only: Callable[[Point], bool] | None = None

    def suspects(self, error: float, code: Callable[[str], str] = str) -> str:
        """Return the suspects for a forecast with the signed *error*; *code* sets names of costs.

        >>> SYMPTOMS[2].suspects(-0.2)
        'interrupt.way, call.delivery_ns too high; client.connect_ns, client.send_ns too low'
        """
        high, low = (self.raises, self.lowers) if error > 0 else (self.lowers, self.raises)
        costs = [
            f"{', '.join(map(code, names))} too {side}"
            for names, side in ((high, "high"), (low, "low"))
            if names
        ]
        return "; ".join([*costs, *filter(None, [self.too_high if error > 0 else self.too_low])])


def _has_idle(point: Point) -> bool:
    return point.idle.connections > 0


def _has_long_replies(point: Point) -> bool:
    return point.load.reply_size > SEGMENT_BYTES


_SCANS = ("MECHANISM.scan", "MECHANISM.register")
_FLIGHTS = ("call.write_kib_ns", "interrupt.acked_ns")
_LEDGER = ("call.*", "interrupt.entry_ns", "application.request_ns")
_LARGEST = "begin with the largest cost of the ledger"
_NO_COST = "no cost: the model of the mechanism, or settings that differ from the server's"
_AT_EQUAL_CPU = "if the error is gone at equal CPU; otherwise the queues of the model"
_COSTS_HIGH = f"the costs of CPU time too high, {_AT_EQUAL_CPU}"
_COSTS_LOW = f"the costs of CPU time too low, {_AT_EQUAL_CPU}"
SYMPTOMS = (
    Symptom("events per wait", "(check it first)", EVENTS, (QUIET, CLOSED),
            too_high=_NO_COST, too_low=_NO_COST),
    Symptom("events per wait, near the capacity and above", "CPU is right", EVENTS, (NEAR, PAST),
            right=(CPU,),
            too_high=_NO_COST, too_low=_NO_COST),
    Symptom("interrupts per request", "events per wait are right", INTERRUPTS, _ALL,
            right=(EVENTS,),
            raises=("client.connect_ns", "client.send_ns"),
            lowers=("interrupt.way", "call.delivery_ns")),
    Symptom("CPU, with idle connections", "it is right without them", CPU, (QUIET,),
            raises=_SCANS, only=_has_idle),
    Symptom("CPU, with long replies", "it is right with short ones", CPU, (QUIET,),
            raises=_FLIGHTS, only=_has_long_replies),
    Symptom("CPU, at low load", "it is right near the capacity", CPU, (QUIET,),
            right_at=((CPU, NEAR),),
            raises=("interrupt.sleep_ns", "interrupt.wake_ns", "interrupt.entry_since")),
    Symptom("CPU, at every load", "events per wait are right", CPU, (QUIET,),
            right=(EVENTS,),
            raises=_LEDGER, too_high=_LARGEST, too_low=_LARGEST),
    Symptom("CPU, near the capacity and above", "it is right at low load", CPU, (NEAR, PAST),
            right_at=((CPU, QUIET),),
            raises=("call.crowding", "sharing.refill")),
    Symptom("capacity, with idle connections", "it is right without them", CAPACITY, (CLOSED,),
            lowers=_SCANS, only=_has_idle),
    Symptom("capacity, with long replies", "it is right with short ones", CAPACITY, (CLOSED,),
            lowers=_FLIGHTS, only=_has_long_replies),
    Symptom("capacity", "events per wait are right", CAPACITY, (CLOSED, NEAR, PAST),
            right=(EVENTS,),
            lowers=_LEDGER, too_high=_LARGEST, too_low=_LARGEST),
    Symptom("p50, at low load", "CPU is right", P50, (QUIET,),
            right=(CPU,),
            raises=("interrupt.idle_exit_ns", "interrupt.idle_exit_since", "interrupt.way",
                    "interrupt.syn_cold_ns", "network.delay_ns")),
    Symptom("p50, near the capacity and above", "it is right at low load", P50, (NEAR, PAST),
            right_at=((P50, QUIET),), too_high=_COSTS_HIGH, too_low=_COSTS_LOW),
    Symptom("p99, at low load", "p50 and CPU are right", P99, (QUIET,),
            right=(P50, CPU),
            too_high="gaps of the host (`machine.noise`) that the runs did not have",
            too_low="gaps of the host (`machine.noise`), bursts of arrivals, lateness of the load "
            "generator"),
    Symptom("p99, near the capacity and above", "it is right at low load", P99, (NEAR, PAST),
            right_at=((P99, QUIET),), too_high=_COSTS_HIGH, too_low=_COSTS_LOW),
)  # fmt: skip
"""What to suspect, the most particular symptom of a metric first."""


class Suspicion(NamedTuple):
    """A wrong median, its symptom, and metrics to mend before it.

    Without a symptom none fits, as the metrics of `first` are wrong, too.
    """

    wrong: WrongMedian
    symptom: Symptom | None
    first: tuple[str, ...] = ()


def readings_of(scores: Iterable[PointScore]) -> list[Reading]:
    """Return the errors of each metric of `ORDER` at the held-out points of *scores*.

    The noise is half the range of the repeats, over the measured value. It is at least that of a
    point that counts as precisely known (`precision.WITHIN`), and that of a point with one run.
    """
    found = []
    for score in scores:
        regime = None if score.role == "fit" else regime_of(score)
        for figure in ORDER if regime else ():
            judged = value_of(score, figure)
            # A closed loop has no response times of its own: each user waits for its reply.
            if judged is None or regime is None or (regime == CLOSED and figure in (CPU, P50, P99)):
                continue
            spread = getattr(score.measured.spread, figure)
            half = (spread.high - spread.low) / 2 / getattr(score.measured.median, figure)
            noise = WITHIN if math.isnan(half) else max(WITHIN, half)
            found.append(Reading(figure, regime, score.measured.point, judged.error, noise))
    return found


def suspicions(readings: Sequence[Reading]) -> list[Suspicion]:
    """Return what to suspect for each metric that is wrong, in the order of a search."""
    wrong = wrong_medians(readings)
    found = []
    for figure in ORDER:
        own = [symptom for symptom in SYMPTOMS if symptom.figure == figure]
        fitting = (_fitting(symptom, readings, wrong) for symptom in own)
        suspicion = next(filter(None, fitting), None) or _unexplained(own, wrong)
        found += [suspicion] if suspicion else []
    return found


def wrong_medians(readings: Iterable[Reading]) -> dict[tuple[str, str], WrongMedian]:
    """Return the median errors that are out of their noise, by metric and regime.

    Such a median is larger than the median noise of its points, and the interval of the median over
    the points (`range_of_repeats`) leaves out 0.
    """
    cells: dict[tuple[str, str], list[Reading]] = {}
    for reading in readings:
        if not math.isnan(reading.error):
            cells.setdefault((reading.figure, reading.regime), []).append(reading)
    found = {}
    for cell, own in cells.items():
        error = statistics.median(reading.error for reading in own)
        noise = statistics.median(reading.noise for reading in own)
        low, high = range_of_repeats([reading.error for reading in own])
        if abs(error) > noise and (low > 0 or high < 0):
            found[cell] = WrongMedian(*cell, len(own), error, noise)
    return found


_Wrong = Mapping[tuple[str, str], WrongMedian]


def _fitting(symptom: Symptom, readings: Sequence[Reading], wrong: _Wrong) -> Suspicion | None:
    """Return the suspicion of *symptom* if it fits what is wrong."""
    if symptom.only is not None:
        return _confined(symptom, symptom.only, readings)
    known = {(reading.figure, reading.regime) for reading in readings}
    if not known.issuperset(symptom.right_at):
        return None
    for regime in symptom.regimes:
        found = wrong.get((symptom.figure, regime))
        if found and not _also_wrong(symptom, regime, wrong):
            return Suspicion(found, symptom)
    return None


def _confined(
    symptom: Symptom, is_of_kind: Callable[[Point], bool], readings: Sequence[Reading]
) -> Suspicion | None:
    """Return the suspicion of a metric that is wrong at points of one kind, and right at others."""
    own = [reading for reading in readings if reading.figure == symptom.figure]
    of_kind = [reading for reading in own if is_of_kind(reading.point)]
    others = [reading for reading in own if not is_of_kind(reading.point)]
    wrong, wrong_elsewhere = wrong_medians(of_kind), wrong_medians(others)
    known_elsewhere = {reading.regime for reading in others}
    for regime in symptom.regimes:
        cell = symptom.figure, regime
        if cell in wrong and regime in known_elsewhere and cell not in wrong_elsewhere:
            return Suspicion(wrong[cell], symptom)
    return None


def _also_wrong(symptom: Symptom, regime: str, wrong: _Wrong) -> tuple[str, ...]:
    """Return the metrics that *symptom* needs to be right and that are not."""
    needed = [*((figure, regime) for figure in symptom.right), *symptom.right_at]
    return tuple(dict.fromkeys(figure for figure, at in needed if (figure, at) in wrong))


def _unexplained(symptoms: Sequence[Symptom], wrong: _Wrong) -> Suspicion | None:
    """Return the first wrong median of a metric whose *symptoms* do not fit.

    The last of them at that load is the most general. It names the metrics to mend first.
    """
    for regime in _ALL:
        found = wrong.get((symptoms[0].figure, regime))
        general = [symptom for symptom in symptoms if regime in symptom.regimes]
        if found and general:
            return Suspicion(found, None, _also_wrong(general[-1], regime, wrong))
    return None
