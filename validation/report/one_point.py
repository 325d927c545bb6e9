"""One measured point beside its forecast: every run and metric, and the simulated CPU time.

    runs of the point ──► each metric of each run ─┐
    profile ──► forecast ──► the same metrics ─────┼─► errors ─► where to start the search
            └─► one simulation ──► CPU time of a request, by activity

A report has the medians of many points; this is where to look at one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...calibration.points.point import Point
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import RunRecord
from ...calibration.running.preparation import job_of, run_job
from ...scenario.errors import nearest
from ...sim.engine.workers import workers_for
from ...sim.files.tables import DASH, Column, Table
from ...sim.state.units import MICROSECOND_NS, SECOND_NS
from ..forecast.forecast import Forecast, Lengths, Request, forecasts
from ..points.figures import Figures
from ..points.measured_points import figures_of_run, group, spread
from ..scoring.regimes import (
    CAPACITY,
    CPU,
    EVENTS,
    INTERRUPTS,
    NEAR,
    PAST,
    QUIET,
    noise_of,
    noise_size,
    regime_of,
    value_of,
)
from ..scoring.scoring import PointScore, relative, score
from ..scoring.suspects import METRICS, P50, Symptom, general_symptom, is_read
from ..scoring.value_verdicts import in_words, signed
from .hardware_section import SEEDS_MAX
from .page import microseconds, number, percent
from .point_tables import REGIME_NAMES

_LISTED = 12
"""The number of labels in an error."""
_CONTRADICTORY = 0.5
"""The noise of p50 from which on runs contradict each other."""
_BUSY, _IDLE = "busy_ns", "idle"
_COSTS_OF = {
    "user": "application.*",
    "accept": "call.accept_*, interrupt.displaced_ns",
    "read": "call.read_*",
    "write": "call.write_*",
    "close": "call.close_ns, interrupt.displaced_ns",
    "connect": "call.connect_ns",
    "sleep": "interrupt.sleep_ns",
    "wake": "interrupt.wake_ns",
    "interrupt": "interrupt.*",
    "interrupt_idle": "interrupt.*",
    "ksoftirqd": "interrupt.*",
}
"""The costs on which the time of an activity depends; of all others, those of the mechanism."""
_SHOWN: dict[str, tuple[str, Callable[[float], str]]] = {
    CAPACITY: ("replies/s", number),
    CPU: ("CPU busy", percent),
    _BUSY: ("CPU time of a request, µs", microseconds),
    "process_ns_per_request": ("charged to the process, µs", microseconds),
    INTERRUPTS: ("interrupts per request", "{:.2f}".format),
    EVENTS: ("events per wait", "{:.1f}".format),
    "p50_ns": ("p50, µs", microseconds),
    "p99_ns": ("p99, µs", microseconds),
    "p999_ns": ("p99.9, µs", microseconds),
}


@dataclass(frozen=True)
class OnePoint:
    """A point, its accepted *runs*, and its forecast.

    Attributes
    ----------
    scored:
        The forecast beside the median of the runs.
    cpu_ns:
        The simulated CPU time of a request at the central costs, in ns by activity.
    profile:
        The profile of the forecast.
    """

    point: Point
    runs: Sequence[RunRecord]
    scored: PointScore
    cpu_ns: Mapping[str, float]
    profile: Profile

    def has_cost(self, cost: str) -> bool:
        """Return whether the profile's *cost* is above 0: "call.crowding", or any of "call.*".

        It has those of a MECHANISM.
        """
        table, name = cost.split(".")
        if table == "MECHANISM":
            return True
        known = self.profile.table(table)
        costs = known.values() if name == "*" else filter(None, [known.get(name)])
        return any(any(each.value) for each in costs)


def find_point(points: Iterable[Point], words: str) -> Point:
    """Return the only point whose label has these *words*, in this order; others may be between.

    Raises
    ------
    LookupError
        If there is none, or more than one; with their labels.

    >>> from ...calibration.points.point import point_at
    >>> points = [point_at(mechanism="poll", loop="closed", users=n) for n in (4, 64)]
    >>> find_point(points, "poll 64").label
    'poll idle 0 closed 64'
    """
    labels = {point.label: point for point in points}
    words = words.partition("   (")[0]  # of a line that `labels` returned
    if words in labels:
        return labels[words]
    found = [label for label in labels if _has(label.split(), words.split())]
    if len(found) == 1:
        return labels[found[0]]
    if not found:
        raise LookupError(
            f'no label has the words "{words}" in this order{nearest(words, labels)}; '
            "without POINT, all labels are listed"
        )
    shown = "; ".join(sorted(found)[:_LISTED])
    more = f"; and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    raise LookupError(f'{len(found)} labels have the words "{words}": {shown}{more}')


def _has(label: Sequence[str], words: Sequence[str]) -> bool:
    rest = iter(label)
    return all(word in rest for word in words)


def labels(runs: Iterable[RunRecord]) -> list[str]:
    """Return the labels of the points with accepted *runs*, each with the number of these runs."""
    found = [entry for entry in group(runs) if entry.measured]
    found.sort(key=lambda entry: [word.zfill(20) for word in entry.point.label.split()])
    return [
        f"{entry.point.label}   ({entry.n_accepted} run{'s' * (entry.n_accepted > 1)})"
        for entry in found
    ]


def one_point(
    point: Point,
    runs: Sequence[RunRecord],
    profile: Profile,
    *,
    draws: int,
    workers: int,
    progress: Callable[[int, int], None] | None = None,
) -> OnePoint:
    """Return *point*, of which one run at least was accepted, beside its forecast.

    Parameters
    ----------
    runs:
        All runs of the machine: they show its capacity.
    draws, workers, progress:
        As of `hardware_section`.
    """
    measured = group(runs)
    entry = next(each for each in measured if each.point == point)
    lengths = Lengths(entry.warm_up_ns, entry.window_ns)
    request = Request(point, entry.seeds[:SEEDS_MAX], draws, lengths)
    with workers_for("auto", workers) as executor:
        ((_, made),) = forecasts([request], profile, executor=executor, progress=progress)
    (scored,) = score(measured, {point: made}, {})
    summary = run_job(job_of(point.lasting(*lengths), profile, entry.seeds[0])).summary
    replies = max(1, summary.calls["replies"])
    cpu_ns = {
        name: spent_ns / replies
        for name, spent_ns in summary.cpu.by_activity_ns.items()
        if spent_ns > 0
    }
    own = [run for run in runs if run.accepted and run.point == point]
    return OnePoint(point, own, scored, cpu_ns, profile)


def point_tables(found: OnePoint) -> list[Table]:
    """Return the table of metrics, and that of the simulated CPU time by activity."""
    return [_metrics_table(found), _cpu_table(found)]


def _metrics_table(found: OnePoint) -> Table:
    forecast = found.scored.forecast
    columns: list[Column[str]] = [
        Column("metric", lambda name: _SHOWN[name][0], words=True),
        *(Column(f"run {index}", _of_run(run)) for index, run in enumerate(found.runs, start=1)),
        Column("forecast", lambda name: _text(name, forecast.central)),
    ]
    note = (
        "Error: how far the forecast is above (+) or below (-) the median of the runs. /4: the "
        "forecast is a quarter of the median. "
        "Only interrupts that packets cause are counted."
    )
    if forecast.draws:
        columns.append(Column("interval", lambda name: _interval(name, forecast)))
        note += (
            " Interval: 95% of the forecasts lie in this range. Each forecast takes its costs at "
            "random from their measured intervals."
        )
    columns.append(Column("error", lambda name: _error(name, found.scored)))
    return Table.of(found.point.label, list(_SHOWN), columns, note)


def _of_run(run: RunRecord) -> Callable[[str], str]:
    return lambda name: _text(name, figures_of_run(run))


def _value(name: str, figures: Figures) -> float:
    """Return a metric of `_SHOWN`; NaN if unknown."""
    if name != _BUSY:
        return float(getattr(figures, name))
    rate = figures.throughput_per_s
    return figures.cpu_busy * SECOND_NS / rate if rate > 0 else math.nan


def _text(name: str, figures: Figures) -> str:
    value = _value(name, figures)
    return DASH if math.isnan(value) else _SHOWN[name][1](value)


def _interval(name: str, forecast: Forecast) -> str:
    """Return the interval of a metric; a dash for one that is made of two others."""
    if name == _BUSY or math.isnan(_value(name, forecast.low)):
        return DASH
    low = forecast.low._replace(**{name: max(0.0, _value(name, forecast.low))})
    return f"{_text(name, low)} to {_text(name, forecast.high)}"


def _error(name: str, scored: PointScore) -> str:
    error = _relative(name, scored)
    return DASH if error is None else signed(error)


def _relative(name: str, scored: PointScore) -> float | None:
    return relative(_value(name, scored.forecast.central), _value(name, scored.measured.median))


def _cpu_table(found: OnePoint) -> Table:
    whole_ns = sum(ns for name, ns in found.cpu_ns.items() if name != _IDLE)
    mechanism = found.point.server.mechanism
    columns: list[Column[str]] = [
        Column("activity", str, words=True),
        Column("µs", lambda name: f"{found.cpu_ns[name] / MICROSECOND_NS:.1f}"),
        Column("share", lambda name: found.cpu_ns[name] / whole_ns, percent),
        Column("costs", lambda name: _COSTS_OF.get(name, f"{mechanism}.*"), words=True),
    ]
    busy = [name for name in found.cpu_ns if name != _IDLE]
    return Table.of(
        "Simulated CPU time of a request",
        sorted(busy, key=found.cpu_ns.__getitem__, reverse=True),
        columns,
        "This table comes from one simulation, with the same arrivals as run 1.",
    )


def where_to_start(found: OnePoint) -> str:
    """Return the metric to start the search from, with its suspects, and what the runs leave open.

    The CPU time of a request comes first, as it changes all others, unless interrupts are farther
    beyond their noise. A metric whose symptom needs others to be right comes after these.
    """
    scored = found.scored
    regime = regime_of(scored)
    if scored.role == "fit":
        return "The fit used the throughput of this point, so that error is no evidence."
    if regime is None:
        return "The capacity of this server was not measured, so nothing is suspected."
    return " ".join(filter(None, [_start(found, regime), _doubt(scored)]))


class _Wrong(NamedTuple):
    """A relative error, and the size up to which it may be noise."""

    error: float
    noise: float

    @property
    def excess(self) -> float:
        return abs(self.error) / self.noise

    def text(self, name: str) -> str:
        error = in_words(self.error)
        return (
            f"Look first at {name}: the forecast is {error} (noise of the runs: {self.noise:.1%})."
        )


def _start(found: OnePoint, regime: str) -> str:
    wrong, spent = _wrong_metrics(found.scored, regime), _wrong_cpu(found)
    if spent and (INTERRUPTS not in wrong or spent.excess >= wrong[INTERRUPTS].excess):
        said = f"{spent.text('the CPU time of a request')} Suspect: "
        said += _general(CPU, QUIET).suspects(spent.error, is_there=found.has_cost)
        if regime in (NEAR, PAST):
            others = _general(CPU, regime).suspects(spent.error, is_there=found.has_cost)
            said += f". If CPU is right {REGIME_NAMES[QUIET]}: {others}"
        return f"{said}."
    if not wrong:
        return "No error is larger than its noise: half the range of the runs, at least 3%."
    figure = INTERRUPTS if spent else next(iter(wrong))
    symptom = _general(figure, regime)
    while first := next((f for f, r in symptom.needed(regime) if r == regime and f in wrong), ""):
        figure, symptom = first, _general(first, regime)
    elsewhere = [METRICS[f] for f, r in symptom.needed(regime) if r != regime]
    check = f"First check {elsewhere[0]} {REGIME_NAMES[QUIET]}. " if elsewhere else ""
    error = wrong[figure].error
    suspects = symptom.suspects(error, is_there=found.has_cost)
    return f"{wrong[figure].text(METRICS[figure])} {check}Suspect: {suspects}."


def _wrong_cpu(found: OnePoint) -> _Wrong | None:
    """Return error and noise of the CPU time of a request if it is wrong."""
    values = [_value(_BUSY, figures_of_run(run)) for run in found.runs]
    error = _relative(_BUSY, found.scored)
    if error is None:
        return None
    noise = noise_size(spread(values), _value(_BUSY, found.scored.measured.median))
    spent = _Wrong(error, noise)
    return spent if spent.excess > 1 else None


def _wrong_metrics(scored: PointScore, regime: str) -> dict[str, _Wrong]:
    """Return the metrics that are wrong and have suspects, in the order of a search."""
    found = {}
    for figure in METRICS:
        judged = value_of(scored, figure) if is_read(figure, regime) else None
        if judged is not None and general_symptom(figure, regime):
            each = _Wrong(judged.error, noise_of(scored, figure))
            if each.excess > 1:  # not if NaN
                found[figure] = each
    return found


def _general(figure: str, regime: str) -> Symptom:
    """Return the `general_symptom` of a metric that has one at this load."""
    found = general_symptom(figure, regime)
    assert found is not None
    return found


def _doubt(scored: PointScore) -> str:
    """Return why the runs of a point show little; empty if they do not."""
    if scored.measured.n_accepted == 1:
        return "This point has one run, so its noise is unknown."
    noise = noise_of(scored, P50)
    if noise > _CONTRADICTORY:
        return f"The runs contradict each other: the noise of p50 is {noise:.0%}. Measure it again."
    return ""
