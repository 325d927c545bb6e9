"""The tables of a report as text, one source for the terminal and the page.

Errors carry a sign: + where the forecast is above the measurement. The scatter is half the 95%
interval of the median over repeats. A missing value is a dash.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..points.measured_points import MeasuredPoint, Spread
from ..scoring.scoring import PointScore, verdicts_agree
from ..scoring.targets import OURS, Target

DASH = "–"  # noqa: RUF001
_MICROSECOND_NS = 1000


@dataclass(frozen=True)
class TextTable:
    """A table of ready text; `n_text` first columns are words, the others numbers."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    n_text: int = 1


def target_table(targets: Sequence[Target]) -> TextTable:
    """Return the targets, what was reached, and the baselines beside it."""
    names = list(dict.fromkeys(name for target in targets for name in target.values))
    rows = [
        (
            f"{t.name}, {t.statistic}",
            f"≤ {_size(t.limit, t.unit)}",
            DASH if t.verdict == "not measured" else t.verdict,
            f"{t.n_within}/{t.n_points[OURS]}",
            *(_answer(t, name) for name in names),
        )
        for t in targets
    ]
    note = (
        "Absolute errors over held-out points; the columns by name are who forecast, with the "
        "number of points in brackets where it has an answer to fewer of them."
    )
    columns = ("target", "limit", "verdict", "within", *names)
    return TextTable("Targets", note, columns, rows)


def score_tables(scores: Sequence[PointScore]) -> list[TextTable]:
    """Return the tables of all points: closed loops, open loops, accept limits."""
    free = [s for s in scores if s.measured.point.accept_limit == 0]
    limited = [s for s in scores if s.measured.point.accept_limit > 0]
    closed = [s for s in free if s.measured.point.loop == "closed"]
    opened = [s for s in free if s.measured.point.loop == "open"]
    tables = [
        _closed("Closed loop", closed, "users", lambda s: str(s.measured.point.users)),
        *(_open(title, rows) for title, rows in _by_curve(opened).items()),
        _closed("Accept limit", limited, "limit", lambda s: str(s.measured.point.accept_limit)),
    ]
    return [table for table in tables if table.rows]


def missing_table(missing: Sequence[MeasuredPoint]) -> TextTable:
    """Return the points that have no accepted repeat."""
    rows = [(entry.point.label, str(entry.n_rejected)) for entry in missing]
    return TextTable("Not measured: every repeat was rejected", "", ("point", "rejected"), rows)


def _closed(
    title: str, scores: Sequence[PointScore], column: str, value: Callable[[PointScore], str]
) -> TextTable:
    rows = [
        (
            _name(s),
            str(s.measured.point.idle),
            value(s),
            number(s.measured.median.throughput_per_s),
            scatter(s.measured.spread.throughput_per_s, s.measured.median.throughput_per_s),
            number(s.forecast.central.throughput_per_s),
            interval(s.forecast.low.throughput_per_s, s.forecast.high.throughput_per_s),
            signed(s.errors.throughput),
            yes_no(s.inside.throughput),
            percent(s.measured.median.cpu_busy),
            points(s.errors.cpu),
            signed(s.errors.p50),
            _coped(s),
        )
        for s in scores
    ]
    columns = (
        "mechanism", "idle", column, "meas/s", "±", "fcst/s", "95% interval", "error", "in",
        "CPU", "pts", "p50", "coped",
    )  # fmt: skip
    note = (
        "Throughput: measured, scatter, forecast, its interval from costs and arrivals, error, "
        "whether the measured value is in the interval; CPU measured and its error in points; "
        "error of p50; how the server coped: forecast/measured where they differ. Machines drift "
        "between fit and run, which no interval holds. * The fit has seen this point; it is not "
        "scored."
    )
    return TextTable(title, note, columns, rows)


def _open(title: str, scores: Sequence[PointScore]) -> TextTable:
    rows = [
        (
            number(s.measured.point.rate_per_s),
            percent(s.load_share),
            "offered" if s.role == "offered" else signed(s.errors.throughput),
            percent(s.measured.median.cpu_busy),
            points(s.errors.cpu),
            yes_no(s.inside.cpu),
            number(s.measured.median.p50_ns / _MICROSECOND_NS),
            scatter(s.measured.spread.p50_ns, s.measured.median.p50_ns),
            number(s.forecast.central.p50_ns / _MICROSECOND_NS),
            signed(s.errors.p50),
            yes_no(s.inside.p50),
            signed(s.p50_at_equal_cpu),
            signed(s.load_shift_p50),
            _coped(s),
        )
        for s in sorted(scores, key=lambda s: s.measured.point.rate_per_s)
    ]
    columns = (
        "rate/s", "load", "thr.", "CPU", "pts", "in", "p50 µs", "±", "fcst",
        "error", "in", "=CPU", "shift", "coped",
    )  # fmt: skip
    note = (
        "thr.: error of throughput; =CPU: p50 error where forecast and measured CPU are equally "
        "busy; shift: change of load at which the forecast p50 is the measured one; coped: "
        "forecast/measured where they differ."
    )
    return TextTable(title, note, columns, rows, n_text=0)


def _by_curve(scores: Sequence[PointScore]) -> dict[str, list[PointScore]]:
    """Return the points of each open-loop curve by its title, by idle count and mechanism."""
    curves: dict[str, list[PointScore]] = {}
    for s in sorted(scores, key=lambda s: s.measured.point.idle):
        title = f"Open loop, {s.measured.point.idle} idle: {_name(s)}"
        curves.setdefault(title, []).append(s)
    return curves


def _name(score: PointScore) -> str:
    point = score.measured.point
    extra = [] if point.listener == "first" else ["last"]
    extra += ["read"] if point.read_after_accept else []
    extra += [point.threads] if point.blocks else []
    extra += [f"×{point.requests}"] if point.requests > 1 else []  # noqa: RUF001
    extra += ["*"] if score.role == "fit" else []
    return " ".join([point.mechanism, *extra]).replace(" *", "*")


def _coped(score: PointScore) -> str:
    """Return the forecast's verdict, and the measured one where they differ."""
    words = {"stable": "stable", "backlogged": "back", "overloaded": "over"}
    forecast = words[score.forecast.verdict]
    return forecast if verdicts_agree(score) else f"{forecast}/{words[score.measured.verdict]}"


def number(value: float) -> str:
    """Return *value* with about three digits and a thin letter for thousands.

    >>> [number(v) for v in (87.4, 2557.0, 25002.0, 1_390_000.0)]
    ['87', '2557', '25.0k', '1.39M']
    """
    if math.isnan(value):
        return DASH
    if value < 9_999.5:
        return f"{value:.0f}"
    return f"{value / 1000:.1f}k" if value < 999_950 else f"{value / 1_000_000:.2f}M"


def interval(low: float, high: float) -> str:
    """Return the text of an interval."""
    return DASH if math.isnan(low) else f"{number(low)}{DASH}{number(high)}"


def scatter(spread: Spread, median: float) -> str:
    """Return half the interval of the median, relative to it."""
    if math.isnan(spread.low) or not median:
        return DASH
    half = (spread.high - spread.low) / 2 / median
    return f"{half:.1%}" if half < 0.0995 else f"{half:.0%}"


def signed(value: float | None) -> str:
    """Return a relative error with its sign."""
    if value is None:
        return DASH
    return f"{value:+.1%}" if abs(value) < 0.0995 else f"{value:+.0%}"


def points(value: float | None) -> str:
    """Return a difference of shares in percentage points."""
    return DASH if value is None else f"{100 * value:+.1f}"


def percent(value: float | None) -> str:
    """Return a share."""
    return DASH if value is None or math.isnan(value) else f"{value:.0%}"


def yes_no(value: bool | None) -> str:
    """Return whether, in one word."""
    return DASH if value is None else "yes" if value else "no"


def _answer(target: Target, name: str) -> str:
    value = _size(target.values.get(name), target.unit)
    n_points = target.n_points.get(name, 0)
    return value if n_points in (0, target.n_points[OURS]) else f"{value} ({n_points})"


def _size(value: float | None, unit: str) -> str:
    if value is None:
        return DASH
    if unit == "points":
        return f"{100 * value:.1f} pts"
    return f"{value:.1%}" if value < 0.9995 else f"{value:.0%}"
