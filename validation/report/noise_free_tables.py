"""The tables of runs without noise as text, one source for the terminal and the page.

Errors carry a sign, + where the forecast is above the measurement, and ! where they are beyond
what was promised. Counts are per request. A missing value is a dash.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from ...calibration.points.points import Point
from ..noise_free.ledger import ACTIVITIES, Ledger
from ..noise_free.promises import LIMITS, NAMES, Promise, is_within, worst_points
from ..noise_free.scoring import RunErrors, RunScore, by_point, worst_error
from ..points.measured_points import median
from ..scoring.targets import OURS
from .tables import DASH, TextTable, number, percent

ErrorsOf = Callable[[RunScore], RunErrors]

WORST = 10
"""Points that are shown with everything that is known of them."""
COLUMNS = {
    "cpu_ns_per_request": "CPU ns",
    "waits_per_request": "waits",
    "events_per_wait": "events",
    "mean_ns": "mean",
    "p99_ns": "p99",
    "throughput_per_s": "thr/s",
}
"""Heading by figure of a run."""
COUNTS = {"interrupts": "irq", "packets": "pkts", "switches": "sw"}
"""Heading by count that tells which structure is wrong."""
_MORE_COUNTS = {**COUNTS, "reads": "reads", "read_again": "empty reads",
                "accept_again": "empty accepts", "writes": "writes"}  # fmt: skip
_COUNT_NAMES = "irq: rounds of interrupts; pkts: packets to the server; sw: times it went to sleep"


def promise_table(promises: Sequence[Promise]) -> TextTable:
    """Return what was promised and what came of it, with the baselines beside it."""
    names = list(dict.fromkeys(name for p in promises for name in p.errors))
    baselines = [name for name in names if name != OURS]
    rows = [
        (
            NAMES[p.figure],
            f"{p.limit:.1%}",
            DASH if p.verdict == "not measured" else p.verdict,
            f"{p.n_points_within}/{p.n_points}",
            f"{p.n_runs_within}/{p.errors[OURS].n_runs}",
            size_text(p.errors[OURS].median),
            size_text(p.errors[OURS].worst),
            *(size_text(p.errors[name].median) for name in baselines),
        )
        for p in promises
    ]
    note = (
        "Absolute errors over the runs of points that the fit did not see; a point is within where "
        "all its runs are. By name, the baselines: median."
    )
    columns = ("figure", "within", "verdict", "points", "runs", "median", "worst", *baselines)
    return TextTable("Promises", note, columns, rows)


def group_tables(scores: Sequence[RunScore]) -> list[TextTable]:
    """Return the worst error of each figure by server: all of it, and what is the structure's."""
    groups: dict[tuple[str, str, str], list[RunScore]] = {}
    for s in sorted(scores, key=lambda s: (s.point.mechanism, s.point.idle)):
        if not s.seen:
            groups.setdefault(_group(s.point), []).append(s)
    texts: tuple[tuple[str, str, ErrorsOf], ...] = (
        (
            "By server",
            "Points within all limits, and the worst error of each figure; !: beyond the promise.",
            lambda s: s.errors,
        ),
        (
            "By server, at equal CPU",
            "The same where each run's costs are scaled until its CPU is as busy as measured: what "
            "is still wrong is not the level of the costs.",
            lambda s: s.at_equal_cpu,
        ),
    )
    columns = ("server", "idle", "load", "within", *COLUMNS.values())
    return [
        TextTable(title, note, columns, [_group_row(k, v, get) for k, v in groups.items()])
        for title, note, get in texts
    ]


def _group_row(
    group: tuple[str, str, str], runs: Sequence[RunScore], errors_of: ErrorsOf
) -> tuple[str, ...]:
    points = by_point(runs)
    within = [all(is_within(errors_of(s)) for s in own) for own in points.values()]
    found = [errors_of(s) for s in runs]
    return (
        *group,
        f"{sum(within)}/{len(points)}",
        *(error_text(worst_error(found, figure), limit) for figure, limit in LIMITS.items()),
    )


def worst_table(scores: Sequence[RunScore], n: int = WORST) -> TextTable:
    """Return all that is known of the *n* points that miss by most."""
    rows = [row for score in worst_points(scores, n) for row in _rows_of(score)]
    note = (
        "One run of each, latency in µs: measured, forecast, error, and the error at equal CPU; "
        f"{_COUNT_NAMES}, per request. Throughput counts where the server is saturated."
    )
    columns = ("point", "", *COLUMNS.values(), *COUNTS.values())
    return TextTable(f"The worst {len(rows) // 4} points", note, columns, rows, n_text=2)


def point_tables(scores: Sequence[RunScore]) -> list[TextTable]:
    """Return the figures of every point, a table a curve of load."""
    note = (
        "Medians of the runs as measured, latency in µs, and the error of the run that is farthest "
        "off; !: beyond the promise; *: seen by the fit, not scored."
    )
    columns = ("point", "load", "runs", *_twice(COLUMNS.values(), "error"))
    return [TextTable(title, note, columns, rows) for title, rows in _curves(scores, _figures_row)]


def count_tables(scores: Sequence[RunScore]) -> list[TextTable]:
    """Return the counts per request of every point, a table a curve of load."""
    note = f"Means over the runs, measured and forecast; {_COUNT_NAMES}."
    columns = ("point", "load", *_twice(_MORE_COUNTS.values(), "fcst"))
    return [
        TextTable(f"{title}, counts per request", note, columns, rows)
        for title, rows in _curves(scores, _counts_row)
    ]


def ledger_table(ledger: Ledger) -> TextTable:
    """Return where a request's time goes at one point, measured and simulated."""
    whole = sum(ledger.measured.values())
    rows = [
        (
            name,
            number(ledger.measured[name]),
            number(ledger.simulated[name]),
            f"{ledger.simulated[name] - ledger.measured[name]:+.0f}",
            error_text((ledger.simulated[name] - ledger.measured[name]) / whole if whole else None),
        )
        for name in ACTIVITIES
    ]
    simulated = sum(ledger.simulated.values())
    rows.append(("all", number(whole), number(simulated), f"{simulated - whole:+.0f}", ""))
    note = (
        f"Instructions per request over {ledger.n_replies} replies ({ledger.source}) and simulated "
        f"ns per request; by the kernel's clock it was busy for {ledger.busy_ns:.0f} ns."
    )
    columns = ("activity", "instructions", "simulated ns", "difference", "of all")
    return TextTable(f"CPU ledger: {ledger.point.label}", note, columns, rows)


def function_table(ledger: Ledger) -> TextTable:
    """Return the functions that took most instructions at one point."""
    whole = sum(ledger.measured.values())
    rows = [
        (name, f"{n:.1f}", percent(n / whole if whole else None))
        for name, n in ledger.functions.items()
    ]
    note = "Instructions per request in the function itself, and the share of all."
    columns = ("function", "instructions", "share")
    return TextTable(f"Functions: {ledger.point.label}", note, columns, rows)


def ledger_summary(found: Sequence[Ledger]) -> TextTable:
    """Return the totals of the ledgers, and the activities that differ by most."""
    rows = []
    for ledger in found:
        whole, simulated = sum(ledger.measured.values()), sum(ledger.simulated.values())
        gaps = {name: ledger.simulated[name] - ledger.measured[name] for name in ACTIVITIES}
        most = sorted(gaps, key=lambda name: -abs(gaps[name]))[:2]
        rows.append(
            (
                ledger.point.label,
                number(whole),
                number(simulated),
                error_text(simulated / whole - 1 if whole else None),
                ", ".join(f"{name} {gaps[name]:+.0f}" for name in most),
            )
        )
    note = "Instructions and simulated ns per request, and where they differ by most; see the page."
    columns = ("point", "measured", "forecast", "error", "mostly")
    return TextTable("CPU ledger", note, columns, rows)


def error_text(error: float | None, limit: float | None = None) -> str:
    """Return a relative error with its sign, and a mark where it is beyond *limit*.

    >>> [error_text(0.0012), error_text(-0.234), error_text(0.021, limit=0.02)]
    ['+0.12%', '-23%', '+2.1%!']
    """
    if error is None:
        return DASH
    digits = 2 if abs(error) < 0.00995 else 1 if abs(error) < 0.0995 else 0
    text = f"{error:+.{digits}%}"
    return text + ("!" if limit is not None and abs(error) > limit else "")


def figure_text(figure: str, value: float) -> str:
    """Return the value of a figure of a run in the unit of its column."""
    if figure in ("waits_per_request", "events_per_wait"):
        return count_text(value)
    return number(value / 1000 if figure in ("mean_ns", "p99_ns") else value)


def count_text(value: float | None) -> str:
    """Return a count per request with three digits.

    >>> [count_text(value) for value in (0.0123, 1.8349, 12.34, 1234.5)]
    ['0.012', '1.835', '12.3', '1234']
    """
    if value is None or math.isnan(value):
        return DASH
    digits = 3 if value < 9.9995 else 1 if value < 999.95 else 0
    return f"{value:.{digits}f}"


def _rows_of(score: RunScore) -> list[tuple[str, ...]]:
    """Return measured, forecast, error and the error at equal CPU of one run."""
    point = score.point
    idle = f"idle {point.idle}"
    load = point.label.removeprefix(f"{point.mechanism} {idle}").strip()
    share = "" if score.load_share is None else f", {percent(score.load_share)} load"
    measured = [figure_text(f, v) for f, v in score.measured._asdict().items()]
    forecast = [figure_text(f, v) for f, v in score.forecast._asdict().items()]
    errors = [error_text(e, LIMITS[f]) for f, e in score.errors._asdict().items()]
    scaled = [error_text(e, LIMITS[f]) for f, e in score.at_equal_cpu._asdict().items()]
    pairs = [(score.counts.get(name), score.forecast_counts.get(name)) for name in COUNTS]
    return [
        (point.mechanism, "meas", *measured, *(count_text(a) for a, _ in pairs)),
        (load, "fcst", *forecast, *(count_text(b) for _, b in pairs)),
        (idle + share, "err", *errors, *(_count_error(*p) for p in pairs)),
        (f"run {score.record.repeat}", "=CPU", *scaled, *([""] * len(pairs))),
    ]


def _count_error(measured: float | None, forecast: float | None) -> str:
    return error_text(forecast / measured - 1) if measured and forecast is not None else DASH


def _curves(
    scores: Sequence[RunScore], row: Callable[[Sequence[RunScore]], tuple[str, ...]]
) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Return title and rows of each curve: one server, loads ascending."""
    curves: dict[tuple[str, str, str], list[Sequence[RunScore]]] = {}
    points = by_point(scores)
    for point in sorted(points, key=lambda p: (p.idle, p.loop, p.users, p.rate_per_s)):
        curves.setdefault(_group(point), []).append(points[point])
    return [
        (f"{server}, {idle} idle, {load} loop", [row(runs) for runs in curves[server, idle, load]])
        for server, idle, load in sorted(curves, key=lambda key: (key[0], int(key[1]), key[2]))
    ]


def _figures_row(runs: Sequence[RunScore]) -> tuple[str, ...]:
    cells = []
    for figure, limit in LIMITS.items():
        measured = median([getattr(s.measured, figure) for s in runs])
        worst = worst_error((s.errors for s in runs), figure)
        cells += [figure_text(figure, measured), error_text(worst, limit)]
    return (*_place(runs), str(len(runs)), *cells)


def _counts_row(runs: Sequence[RunScore]) -> tuple[str, ...]:
    cells = []
    for name in _MORE_COUNTS:
        for column in ([s.counts for s in runs], [s.forecast_counts for s in runs]):
            known = [counts[name] for counts in column if name in counts]
            cells.append(count_text(fmean(known) if known else None))
    return (*_place(runs), *cells)


def _place(runs: Sequence[RunScore]) -> tuple[str, str]:
    """Return what is set at a point, and its share of the server's capacity."""
    point = runs[0].point
    load = f"{point.users} users" if point.loop == "closed" else f"{point.rate_per_s:.0f}/s"
    return load + ("*" if runs[0].seen else ""), percent(runs[0].load_share)


def _group(point: Point) -> tuple[str, str, str]:
    """Return server, idle count and kind of load of a point."""
    server = point.label.replace(f" idle {point.idle} ", " ", 1)
    words = server.split()
    del words[1:3]  # the load
    if point.read_after_accept:
        words.append("read")
    return " ".join(words), str(point.idle), point.loop


def _twice(names: Iterable[str], second: str) -> tuple[str, ...]:
    return tuple(word for name in names for word in (name, second))


def size_text(value: float | None) -> str:
    """Return an absolute error."""
    return DASH if value is None else error_text(value).lstrip("+")
