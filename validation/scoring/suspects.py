"""From a wrong metric to the costs and effects to suspect.

    errors of points ─► median of a metric in a regime ─┬─► wrong ─┬─► symptom ─► suspects
                                                        └─► right ─┘

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
from ...calibration.records.precision import range_of_repeats
from ...sim.wire.way import SEGMENT_BYTES
from .regimes import (
    CAPACITY,
    CLOSED,
    CPU,
    EVENTS,
    INTERRUPTS,
    NEAR,
    PAST,
    QUIET,
    noise_of,
    regime_of,
    value_of,
)
from .scoring import PointScore

RIGHT_LEAST = 5
"""The least number of points of a metric that is known to be right.

The range of five errors holds their median in 94% of cases, that of four in 88%."""
P50, P99 = "p50_ns", "p99_ns"
METRICS = {
    EVENTS: "events per wait",
    INTERRUPTS: "interrupts per request",
    CPU: "CPU",
    CAPACITY: "capacity",
    P50: "p50",
    P99: "p99",
}
"""The metrics by name, in the order in which to search: the error of one shifts those after it."""
IN_OPEN_LOOPS = (CPU, P50, P99)
"""The metrics that are not read in closed loops.

A busy closed loop has its CPU time in its capacity, and each user waits for its reply."""
_ALL = (QUIET, CLOSED, NEAR, PAST)
Cell = tuple[str, str]
"""A metric, and a regime of load."""


class Reading(NamedTuple):
    """The relative error of one metric at a point, and the size up to which it may be noise."""

    figure: str
    regime: str
    point: Point
    error: float
    noise: float


class MedianError(NamedTuple):
    """The median error of one metric in one regime, over *n* points.

    Attributes
    ----------
    noise:
        The median noise of the points.
    low, high:
        The interval of the median over the points (`range_of_repeats`); NaN for one error.
    """

    figure: str
    regime: str
    n: int
    error: float
    noise: float
    low: float
    high: float

    @property
    def is_wrong(self) -> bool:
        """Whether the error is larger than its noise, and its interval leaves out 0."""
        return abs(self.error) > self.noise and (self.low > 0 or self.high < 0)

    @property
    def is_right(self) -> bool:
        """Whether the metric is known to be right. Few points show neither."""
        return self.n >= RIGHT_LEAST and abs(self.error) <= self.noise


Medians = Mapping[Cell, MedianError]


class Symptom(NamedTuple):
    """A metric that is wrong while others are right, and what to suspect.

    Attributes
    ----------
    figure, where, meanwhile:
        The metric; where it is wrong and what is right meanwhile, in words.
    regimes:
        The loads at which it may be wrong, in the order of the search.
    right, right_at:
        Metrics that must be right at the same load; and those at another one.
    raises, lowers:
        Costs that raise the metric, and costs that lower it.
    too_high, too_low:
        Further suspects, in words, for a forecast that is too high or too low.
    only:
        Whether a point is of the kind to which the error is confined; None: of any kind.
    """

    figure: str
    where: str
    meanwhile: str
    regimes: tuple[str, ...]
    right: tuple[str, ...] = ()
    right_at: tuple[Cell, ...] = ()
    raises: tuple[str, ...] = ()
    lowers: tuple[str, ...] = ()
    too_high: str = ""
    too_low: str = ""
    only: Callable[[Point], bool] | None = None

    def wrong(self, names: Mapping[str, str] = METRICS) -> str:
        """Return what is wrong, with the *names* of metrics.

        >>> SYMPTOMS[3].wrong()
        'CPU, with idle connections'
        """
        return ", ".join(filter(None, (names[self.figure], self.where)))

    def suspects(
        self,
        error: float,
        code: Callable[[str], str] = str,
        is_there: Callable[[str], bool] = lambda _: True,
    ) -> str:
        """Return the suspects for a forecast with the signed *error*; *code* sets names of costs.

        Costs for which *is_there* is False are never suspected as too high.

        >>> SYMPTOMS[5].suspects(-0.2)
        'interrupt.sleep_ns, interrupt.wake_ns, interrupt.entry_since, cold.* too low'
        """
        high, low = (self.raises, self.lowers) if error > 0 else (self.lowers, self.raises)
        costs = [
            f"{', '.join(map(code, names))} too {side}"
            for names, side in ((list(filter(is_there, high)), "high"), (low, "low"))
            if names
        ]
        others = self.too_high if error > 0 else self.too_low
        return "; ".join([*costs, *filter(None, [others])]) or "a cost that this table leaves out"

    def needed(self, regime: str) -> tuple[Cell, ...]:
        """Return what must be right, each metric at a load, if this one is wrong at *regime*."""
        return (*((figure, regime) for figure in self.right), *self.right_at)


def _has_idle(point: Point) -> bool:
    return point.idle.connections > 0


def _has_long_replies(point: Point) -> bool:
    return point.load.reply_size > SEGMENT_BYTES  # several segments, in flights


_SCANS = ("MECHANISM.scan", "MECHANISM.register")
_FLIGHTS = ("call.write_kib_ns", "interrupt.acked_ns")
_LEDGER = ("call.*", "interrupt.entry_ns", "application.request_ns")
_LARGEST = "begin with the activity that takes the most CPU time"
_NO_COST = "the model of the mechanism, or simulated settings that differ from the server's"
_OR_QUEUES = "(`lab equal-cpu` then shows no error), or the queues of the model"
_COSTS_HIGH = f"costs of CPU time too high {_OR_QUEUES}"
_COSTS_LOW = f"costs of CPU time too low {_OR_QUEUES}"
# Twice client.connect_ns or client.send_ns: up to twice the interrupts on EPYCs of families 25 and
# 26, at most 1% more or less on one of family 25 model 17 (connect) and on a Xeon (send).
_ON_SOME = "costs of the client matter on some machines only"
_WITH_THREADS = "`sharing.refill` matters with several threads only"
SYMPTOMS = (
    Symptom(EVENTS, "", "(check it first)", (QUIET, CLOSED),
            too_high=_NO_COST, too_low=_NO_COST),
    Symptom(EVENTS, "near the capacity and above", "CPU is right", (NEAR, PAST),
            right=(CPU,),
            too_high=_NO_COST, too_low=_NO_COST),
    Symptom(INTERRUPTS, "", "events per wait are right", _ALL,
            right=(EVENTS,),
            raises=("client.connect_ns", "client.send_ns"),
            lowers=("interrupt.way", "interrupt.entry_ns"),
            too_high=_ON_SOME, too_low=_ON_SOME),
    Symptom(CPU, "with idle connections", "it is right without them", (QUIET,),
            raises=_SCANS, only=_has_idle),
    Symptom(CPU, "with long replies", "it is right with short ones", (QUIET,),
            raises=_FLIGHTS, only=_has_long_replies),
    Symptom(CPU, "at low load", "it is right near the capacity", (QUIET,),
            right_at=((CPU, NEAR),),
            raises=("interrupt.sleep_ns", "interrupt.wake_ns", "interrupt.entry_since", "cold.*")),
    Symptom(CPU, "at every load", "events per wait are right", (QUIET,),
            right=(EVENTS,),
            raises=_LEDGER, too_high=_LARGEST, too_low=_LARGEST),
    Symptom(CPU, "near the capacity and above", "it is right at low load", (NEAR, PAST),
            right_at=((CPU, QUIET),),
            raises=("call.crowding", "sharing.refill"),
            too_high=_WITH_THREADS, too_low=_WITH_THREADS),
    Symptom(CAPACITY, "with idle connections", "it is right without them", (CLOSED,),
            lowers=_SCANS, only=_has_idle),
    Symptom(CAPACITY, "with long replies", "it is right with short ones", (CLOSED,),
            lowers=_FLIGHTS, only=_has_long_replies),
    Symptom(CAPACITY, "", "events per wait are right", (CLOSED, NEAR, PAST),
            right=(EVENTS,),
            lowers=_LEDGER, too_high=_LARGEST, too_low=_LARGEST),
    Symptom(P50, "at low load", "CPU is right", (QUIET,),
            right=(CPU,),
            raises=("interrupt.idle_exit_ns", "interrupt.idle_exit_since", "interrupt.way",
                    "interrupt.syn_cold_ns", "cold.*", "network.delay_ns")),
    Symptom(P50, "near the capacity and above", "it is right at low load", (NEAR, PAST),
            right_at=((P50, QUIET),), too_high=_COSTS_HIGH, too_low=_COSTS_LOW),
    Symptom(P99, "at low load", "p50 and CPU are right", (QUIET,),
            right=(P50, CPU),
            too_high="gaps of the host (`machine.noise`) that the runs did not have",
            too_low="gaps of the host (`machine.noise`), bursts of arrivals, lateness of the load "
            "generator"),
    Symptom(P99, "near the capacity and above", "it is right at low load", (NEAR, PAST),
            right_at=((P99, QUIET),), too_high=_COSTS_HIGH, too_low=_COSTS_LOW),
)  # fmt: skip
"""What to suspect, the most specific symptom of a metric first, the most general one last."""


class Suspicion(NamedTuple):
    """A wrong median, and its symptom.

    Attributes
    ----------
    wrong:
        The median error, over the points of the symptom's kind.
    symptom:
        None if metrics that should be right are wrong.
    first:
        These metrics: to mend before it.
    unknown:
        Metrics, each at a load, that should be right, and that too few points or too much noise
        leave open. The symptom is the most general one then.
    """

    wrong: MedianError
    symptom: Symptom | None
    first: tuple[str, ...] = ()
    unknown: tuple[Cell, ...] = ()


def readings_of(scores: Iterable[PointScore]) -> list[Reading]:
    """Return the errors of each of `METRICS` at the held-out points of *scores*."""
    found = []
    for score in scores:
        regime = regime_of(score)
        if score.role == "fit" or regime is None:
            continue
        for figure in METRICS:
            judged = value_of(score, figure)
            if judged is not None and is_read(figure, regime):
                noise = noise_of(score, figure)
                found.append(Reading(figure, regime, score.measured.point, judged.error, noise))
    return found


def is_read(figure: str, regime: str) -> bool:
    """Return whether a metric is read at the loads of *regime*."""
    return regime != CLOSED or figure not in IN_OPEN_LOOPS


def general_symptom(figure: str, regime: str) -> Symptom | None:
    """Return the most general symptom of a metric at a load, the last one; None without any."""
    found = [s for s in SYMPTOMS if s.figure == figure and regime in s.regimes]
    return found[-1] if found else None


def suspicions(readings: Sequence[Reading]) -> list[Suspicion]:
    """Return what to suspect for each metric that is wrong, in the order of a search."""
    known = medians(readings)
    found = []
    for figure in METRICS:
        own = [symptom for symptom in SYMPTOMS if symptom.figure == figure]
        fitting = (_fitting(symptom, readings, known) for symptom in own)
        suspicion = next(filter(None, fitting), None) or _unexplained(figure, known)
        found += [suspicion] if suspicion else []
    return found


def medians(readings: Iterable[Reading]) -> dict[Cell, MedianError]:
    """Return the median errors by metric and regime."""
    cells: dict[Cell, list[Reading]] = {}
    for reading in readings:
        if not math.isnan(reading.error):
            cells.setdefault((reading.figure, reading.regime), []).append(reading)
    return {
        cell: MedianError(
            *cell,
            len({reading.point for reading in own}),
            statistics.median(reading.error for reading in own),
            statistics.median(reading.noise for reading in own),
            *range_of_repeats([reading.error for reading in own]),
        )
        for cell, own in cells.items()
    }


def _fitting(symptom: Symptom, readings: Sequence[Reading], known: Medians) -> Suspicion | None:
    """Return the suspicion of *symptom* if all that it needs is known."""
    if symptom.only is not None:
        return _confined(symptom, symptom.only, readings)
    for regime in symptom.regimes:
        found = _wrong(known, (symptom.figure, regime))
        if found and all(_is_right(known, cell) for cell in symptom.needed(regime)):
            return Suspicion(found, symptom)
    return None


def _confined(
    symptom: Symptom, is_of_kind: Callable[[Point], bool], readings: Sequence[Reading]
) -> Suspicion | None:
    """Return the suspicion of a metric that is wrong at points of one kind, and right at others."""
    own = [reading for reading in readings if reading.figure == symptom.figure]
    of_kind = medians(reading for reading in own if is_of_kind(reading.point))
    others = medians(reading for reading in own if not is_of_kind(reading.point))
    for regime in symptom.regimes:
        cell = symptom.figure, regime
        found = _wrong(of_kind, cell)
        if found and _is_right(others, cell):
            return Suspicion(found, symptom)
    return None


def _unexplained(figure: str, known: Medians) -> Suspicion | None:
    """Return the first wrong median of a metric, if none of its symptoms fits.

    If a metric that the most general symptom needs is wrong, that metric comes first. Otherwise the
    symptom may be right.
    """
    for regime in _ALL:
        found, general = _wrong(known, (figure, regime)), general_symptom(figure, regime)
        if found and general:
            needed = general.needed(regime)
            first = tuple(dict.fromkeys(cell[0] for cell in needed if _wrong(known, cell)))
            if first:
                return Suspicion(found, None, first)
            unknown = tuple(cell for cell in needed if not _is_right(known, cell))
            return Suspicion(found, general, unknown=unknown)
    return None


def _wrong(known: Medians, cell: Cell) -> MedianError | None:
    found = known.get(cell)
    return found if found and found.is_wrong else None


def _is_right(known: Medians, cell: Cell) -> bool:
    return cell in known and known[cell].is_right
