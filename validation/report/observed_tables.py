"""The tables of a report on a server's own runs, one source for the terminal and the page.

Errors carry a sign: + where the forecast is above the measurement. The noise floor is half the 95%
interval of the median over repeats. A missing value is a dash.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..scoring.ranking import ASPECTS, RankedPair
from ..scoring.scoring import PointScore, verdicts_agree
from .observed_section import (
    CAPACITY_MEDIAN_MAX,
    CAPACITY_WORST_MAX,
    Capacity,
    ObservedSection,
    error_at_equal_busy,
)
from .tables import DASH, TextTable, interval, number, percent, points, scatter, signed, yes_no

_MICROSECOND_NS = 1000


def observed_tables(section: ObservedSection) -> list[TextTable]:
    """Return what was reached, then every point: closed loops, open ones, wrong ranks."""
    closed = [s for s in section.scores if s.measured.point.loop == "closed"]
    opened = [s for s in section.scores if s.measured.point.loop == "open"]
    tables = [
        _summary(section.capacity, section.pairs),
        _closed(closed),
        *(_open(title, own) for title, own in _by_curve(opened).items()),
        _wrong(section.pairs),
    ]
    return [table for table in tables if table.rows]


def _summary(capacity: Capacity, pairs: Sequence[RankedPair]) -> TextTable:
    rows = [
        _target(f"capacity, {name}", capacity.n_points, value, limit)
        for name, value, limit in (
            ("median", capacity.median, CAPACITY_MEDIAN_MAX),
            ("worst", capacity.worst, CAPACITY_WORST_MAX),
        )
    ]
    for aspect, people_say in ASPECTS.items():
        own = [pair for pair in pairs if pair.aspect == aspect]
        if own:
            n_right = sum(pair.right for pair in own)
            verdict = "reached" if n_right == len(own) else "missed"
            rows.append(
                (f"ranking of {people_say}", str(len(own)), f"{n_right} right", "all", verdict)
            )
    note = (
        "Absolute errors of capacity over the points that the fit has not seen; pairs of points "
        "that differ in one thing, and whose measured intervals separate, ranked alike."
    )
    return TextTable("Summary", note, ("what", "of", "value", "limit", "verdict"), rows)


def _target(name: str, n_points: int, value: float | None, limit: float) -> tuple[str, ...]:
    if value is None:
        return name, "0", DASH, f"≤ {limit:.0%}", "not measured"
    verdict = "reached" if value <= limit else "missed"
    return name, str(n_points), f"{value:.1%}", f"≤ {limit:.0%}", verdict


def _closed(scores: Sequence[PointScore]) -> TextTable:
    rows = [
        (
            _name(s, scores),
            str(s.measured.point.idle),
            str(s.measured.point.users),
            str(s.measured.n_accepted),
            number(s.measured.median.throughput_per_s),
            scatter(s.measured.spread.throughput_per_s, s.measured.median.throughput_per_s),
            number(s.forecast.central.throughput_per_s),
            interval(s.forecast.low.throughput_per_s, s.forecast.high.throughput_per_s),
            signed(s.errors.throughput),
            yes_no(s.inside.throughput),
            percent(s.measured.median.cpu_busy),
            points(s.errors.cpu),
            signed(error_at_equal_busy(s)),
        )
        for s in scores
    ]
    columns = (
        "server", "idle", "users", "runs", "meas/s", "±", "fcst/s", "95% interval", "error", "in",
        "CPU", "pts", "=CPU",
    )  # fmt: skip
    note = (
        "Capacity, in replies: measured, its noise floor, forecast, the forecast's interval, error "
        "at equal load, whether what was measured is in the interval; CPU measured, and its error "
        "in points; =CPU: error of replies for a second of busy CPU, at equal utilisation. "
        "* The fit has seen this point; it is not scored."
    )
    return TextTable("Closed loop", note, columns, rows)


def _open(title: str, scores: Sequence[PointScore]) -> TextTable:
    rows = [
        (
            number(s.measured.point.rate_per_s) + ("*" if s.role == "fit" else ""),
            percent(s.load_share),
            "offered" if s.role == "offered" else signed(s.errors.throughput),
            percent(s.measured.median.cpu_busy),
            points(s.errors.cpu),
            _microseconds(s.measured.median.p50_ns),
            scatter(s.measured.spread.p50_ns, s.measured.median.p50_ns),
            _microseconds(s.forecast.central.p50_ns),
            signed(s.errors.p50),
            signed(s.p50_at_equal_cpu),
            signed(s.load_shift_cpu),
            signed(s.load_shift_p50),
            _coped(s),
        )
        for s in sorted(scores, key=lambda s: s.measured.point.rate_per_s)
    ]
    columns = (
        "rate/s", "load", "thr.", "CPU", "pts", "p50 µs", "±", "fcst", "error", "=CPU",
        "shift CPU", "shift p50", "coped",
    )  # fmt: skip
    note = (
        "thr.: error of throughput, or that both delivered what was offered; p50 measured, its "
        "noise floor, forecast, error at equal load; =CPU: p50 error at equal utilisation; shift: "
        "change of load at which the forecast CPU or p50 is the measured one; coped: "
        "forecast/measured where they differ. * The fit has seen this point; it is not scored."
    )
    return TextTable(title, note, columns, rows, n_text=0)


def _wrong(pairs: Sequence[RankedPair]) -> TextTable:
    rows = [
        (ASPECTS[pair.aspect], pair.faster.measured.point.label, pair.slower.measured.point.label)
        for pair in pairs
        if not pair.right
    ]
    columns = ("rank of", "measured to answer more", "forecast to answer more")
    return TextTable("Ranked wrongly", "", columns, rows, n_text=3)


def _by_curve(scores: Sequence[PointScore]) -> dict[str, list[PointScore]]:
    """Return the points of each curve by its title."""
    curves: dict[str, list[PointScore]] = {}
    for s in scores:
        title = f"Open loop, {s.measured.point.idle} idle: {_name(s, scores).rstrip('*')}"
        curves.setdefault(title, []).append(s)
    return curves


def _name(score: PointScore, among: Sequence[PointScore]) -> str:
    """Return how the server waits, and what else it does if others *among* them do not."""
    point = score.measured.point
    limits = {s.measured.point.accept_limit for s in among}
    parts = [point.mechanism]
    parts += [f"×{point.requests}"] if point.requests > 1 else []  # noqa: RUF001
    parts += [f"accept {point.accept_limit}"] if point.accept_limit and len(limits) > 1 else []
    reads = {s.measured.point.read_after_accept for s in among}
    parts += ["read"] if point.read_after_accept and len(reads) > 1 else []
    parts += [f"workers {point.workers}"] if point.workers > 1 else []
    parts += [f"think {point.think_ns / 1e6:.3g} ms"] if point.think_ns else []
    return " ".join(parts) + ("*" if score.role == "fit" else "")


def _microseconds(value_ns: float) -> str:
    return DASH if math.isnan(value_ns) else number(value_ns / _MICROSECOND_NS)


def _coped(score: PointScore) -> str:
    words = {"stable": "stable", "backlogged": "back", "overloaded": "over"}
    forecast = words[score.forecast.verdict]
    return forecast if verdicts_agree(score) else f"{forecast}/{words[score.measured.verdict]}"
