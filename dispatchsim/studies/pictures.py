"""The pictures of answers: intervals, units on the axes, one style for each mechanism.

Overloaded points are hollow: their latencies grow with run length. Numbers of idle connections
beyond the measured range of the profile are shaded. Warnings stand at the foot.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ..scenario.formats import MICROSECONDS
from ..scenario.metric import Kind
from ..scenario.metrics import METRICS
from ..scenario.quantities import read_number
from ..sim.figures.summary import Verdict
from ..sim.state.units import KIB, SECOND_NS
from ..validation.drawing.figures import NOTE_POINTS, SMALL_POINTS, ShownFigure, style
from ..validation.drawing.looks import OKABE_ITO, Look, look_of, nth_look
from .axis import Axis
from .factors import Value, words_of
from .objective import Objective
from .rows import Estimate, Expected, Index, Option, RunSeries, Search, Swept

_LINES_MAX = 12
_ROWS_MAX = 25
_POINTS = 300
WIDTH, HEIGHT = 7.0, 4.2
"""Size of a picture in inches."""
NS_PER_MS = 1e6
_NOTE_WIDTH = 120
_WIDE = 30


def noted(drawing: Figure, warnings: Sequence[str]) -> Figure:
    """Write *warnings* at the foot of a picture."""
    lines = [line for warning in warnings for line in textwrap.wrap(warning, _NOTE_WIDTH)]
    if lines:
        drawing.supxlabel("\n".join(lines), fontsize=NOTE_POINTS, color="#A04000")
    return drawing


def scale_of(figure: str) -> tuple[float, str]:
    """Return the divisor of a metric's values for an axis, and the name of the axis."""
    known = METRICS[figure]
    if known.kind is Kind.TIME:
        return NS_PER_MS, f"{known.heading} (ms)"
    if known.kind is Kind.SIZE:
        return float(KIB**2), f"{known.heading} (MiB)"
    return 1.0, f"{known.label} (1/s)" if known.kind is Kind.RATE else known.heading


def log_if_wide(axes: Axes, axis: str = "y") -> None:
    """Use a logarithmic scale where values span more than a factor of thirty."""
    data = [line.get_ydata() if axis == "y" else line.get_xdata() for line in axes.lines]
    found = np.concatenate([np.asarray(values, dtype=float) for values in data])
    found = found[np.isfinite(found) & (found > 0)]
    if found.size and found.max() > _WIDE * found.min():
        (axes.set_yscale if axis == "y" else axes.set_xscale)("log")
        # Texts are drawn literally (no mathematics), so ticks cannot be powers.
        which = axes.yaxis if axis == "y" else axes.xaxis
        which.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        which.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        which.set_minor_formatter(NullFormatter())


_QUANTILES = {
    "median": "p50_ns",
    "90%": "p90_ns",
    "95%": "p95_ns",
    "99%": "p99_ns",
    "99.9%": "p99_9_ns",
    "longest with a reply": "max_answered_ns",
}


def result_figure(
    estimates: Mapping[str, Estimate], *, title: str, warnings: Sequence[str]
) -> Figure:
    """Return the quantiles of the latency of a result, with both kinds of interval."""
    with style():
        drawing = ShownFigure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = drawing.subplots()
        for row, name in enumerate(_QUANTILES.values()):
            _interval(axes, row, estimates[name], OKABE_ITO[0], NS_PER_MS)
        axes.set_yticks(range(len(_QUANTILES)), list(_QUANTILES))
        axes.invert_yaxis()
        axes.set_xlabel("latency (ms)")
        axes.set_title(title)
        axes.legend(fontsize=SMALL_POINTS)
        log_if_wide(axes, axis="x")
    return noted(drawing, warnings)


def comparison_figure(
    results: Mapping[str, Estimate], figure: str, *, warnings: Sequence[str]
) -> Figure:
    """Return the picture of a metric for each mechanism, the best at the top."""
    scale, label = scale_of(figure)
    order = sorted(results, key=lambda name: results[name].mean)
    with style():
        drawing = ShownFigure(figsize=(WIDTH, 1.4 + 0.35 * len(order)), layout="constrained")
        axes = drawing.subplots()
        for row, name in enumerate(order):
            _interval(axes, row, results[name], look_of(name).colour, scale)
        axes.set_yticks(range(len(order)), order)
        axes.invert_yaxis()
        axes.set_xlabel(label)
        axes.legend(fontsize=SMALL_POINTS)
        log_if_wide(axes, axis="x")
    return noted(drawing, warnings)


def _interval(axes: Axes, row: int, known: Estimate, colour: str, scale: float) -> None:
    is_first = row == 0
    if not math.isnan(known.low):
        axes.plot(
            *([known.low / scale, known.high / scale], [row, row]),
            color="#BBBBBB",
            linewidth=7,
            solid_capstyle="butt",
            label="95% of runs at cost samples" if is_first else None,
        )
    axes.errorbar(
        *(known.mean / scale, row),
        xerr=0.0 if math.isnan(known.half_width) else known.half_width / scale,
        fmt="o",
        color=colour,
        capsize=2,
        label="mean, 95% interval" if is_first else None,
    )


def number_of(value: Value) -> float | None:
    """Return the number in a level: 2000.0 for "2000/s"; None without a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    written = read_number(value)
    return float(written.digits) if written else None


def sweep_figure(
    points: Sequence[Swept],
    figure: str,
    *,
    connections_max: int | None,
    warnings: Sequence[str],
) -> Figure:
    """Return a metric over the first numeric factor, a line for each level of the others.

    Idle connections beyond *connections_max* are shaded: the profile was not measured there.
    """
    fields = list(points[0].levels)
    numeric = [f for f in fields if all(number_of(p.levels[f]) is not None for p in points)]
    x_field = max(numeric, key=lambda f: len({p.levels[f] for p in points})) if numeric else None
    scale, label = scale_of(figure)
    with style():
        drawing = ShownFigure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = drawing.subplots()
        if x_field is None:
            _bars(axes, _names(points), points, figure, scale)
            axes.set_xlabel(label)
            return noted(drawing, warnings)
        lines: dict[str, list[Swept]] = {}
        for point in points:
            rest = {f: v for f, v in point.levels.items() if f != x_field}
            lines.setdefault(words_of(rest), []).append(point)
        is_scatter = max(map(len, lines.values())) == 1 and len(lines) > 1
        if is_scatter or len(lines) > _LINES_MAX:
            lines = {"": list(points)}
        looks = _looks(list(lines.values()))
        for number, (name, members) in enumerate(lines.items()):
            ordered = sorted(members, key=lambda p: number_of(p.levels[x_field]) or 0.0)
            _line(axes, ordered, (x_field, figure, scale), looks[number], (name, is_scatter))
        if x_field == "idle.connections" and connections_max is not None:
            _shade_beyond(axes, connections_max, [p.levels[x_field] for p in points])
        axes.set_xlabel(_axis_label(x_field, points[0].levels[x_field]))
        axes.set_ylabel(label)
        log_if_wide(axes)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=SMALL_POINTS)
        hollow = any(p.verdict is Verdict.OVERLOADED for p in points)
        what = f"{label.partition(' (')[0]} by {x_field}"
        axes.set_title(f"{what} (bars: 95% intervals{'; hollow: overloaded' if hollow else ''})")
    return noted(drawing, warnings)


def _line(
    axes: Axes,
    points: Sequence[Swept],
    what: tuple[str, str, float],
    look: Look,
    named: tuple[str, bool],
) -> None:
    x_field, figure, scale = what
    name, is_scatter = named
    xs = [number_of(p.levels[x_field]) or 0.0 for p in points]
    known = [p.estimate(figure) for p in points]
    ys = [k.mean / scale if math.isfinite(k.mean) else math.nan for k in known]
    errors = [0.0 if math.isnan(k.half_width) else k.half_width / scale for k in known]
    axes.errorbar(
        *(xs, ys),
        yerr=errors,
        label=name or None,
        color=look.colour,
        linestyle="none" if is_scatter else look.dashes,
        capsize=2,
        linewidth=1.2,
    )
    full = [p.verdict is not Verdict.OVERLOADED for p in points]
    for is_full in (True, False):
        at = [(x, y) for x, y, f in zip(xs, ys, full, strict=True) if f is is_full]
        if at:
            axes.plot(
                *zip(*at, strict=True),
                look.marker,
                color=look.colour,
                markerfacecolor=look.colour if is_full else "white",
                markersize=4.5,
            )


def _bars(
    axes: Axes, names: Sequence[str], points: Sequence[Swept], figure: str, scale: float
) -> None:
    known = [p.estimate(figure) for p in points[:_ROWS_MAX]]
    rows = range(len(known))
    axes.errorbar(
        [k.mean / scale for k in known],
        list(rows),
        xerr=[0.0 if math.isnan(k.half_width) else k.half_width / scale for k in known],
        fmt="o",
        color=OKABE_ITO[0],
        capsize=2,
    )
    axes.set_yticks(list(rows), names[:_ROWS_MAX], fontsize=SMALL_POINTS)
    axes.invert_yaxis()


def _names(points: Sequence[Swept]) -> list[str]:
    """Return a name for each point, made of the levels that differ between points."""
    fields = [f for f in points[0].levels if len({p.levels[f] for p in points}) > 1]
    return [words_of({f: p.levels[f] for f in fields}) for p in points]


def capacity_figure(
    searches: Sequence[Search],
    axis: Axis,
    objective: Objective,
    answer: tuple[float, float],
    *,
    mechanism: str,
    warnings: Sequence[str],
) -> Figure:
    """Return loads tried (x), the metric of the first bound (y), and the answer shaded."""
    clause = objective.clauses[0]
    scale, label = scale_of(clause.figure)
    with style():
        drawing = ShownFigure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = drawing.subplots()
        for number, search in enumerate(searches):
            at = sorted(search.tried.items())
            ys = [t.figures[clause.figure] / scale for _, t in at]
            axes.plot(
                [x for x, _ in at],
                [y if math.isfinite(y) else math.nan for y in ys],
                "o-" if number == 0 else ".-",
                color=OKABE_ITO[0] if number == 0 else "#888888",
                linewidth=1.0,
                label={0: "central costs", 1: "cost samples"}.get(number),
            )
        axes.axhline(clause.bound / scale, color=OKABE_ITO[1], linestyle="--", label=str(clause))
        low, high = answer
        if math.isfinite(high):
            axes.axvspan(low, high, color=OKABE_ITO[4], alpha=0.35, label="the answer")
        axes.set_xlabel(_axis_label(axis.field, axis.value(axis.begin)))
        axes.set_ylabel(label)
        axes.set_title(f"{mechanism}: {objective}")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}"))
        log_if_wide(axes)
        axes.legend(fontsize=SMALL_POINTS)
    return noted(drawing, warnings)


def tuning_figure(
    options: Sequence[Option], aim: str, *, mechanism: str, warnings: Sequence[str]
) -> Figure:
    """Return the options with their intervals, best at the top; rejected ones grey."""
    options = options[:_ROWS_MAX]
    scale, label = scale_of(aim)
    with style():
        drawing = ShownFigure(figsize=(WIDTH, 1.2 + 0.28 * len(options)), layout="constrained")
        axes = drawing.subplots()
        for row, option in enumerate(options):
            known = option.swept.estimate(aim)
            colour = OKABE_ITO[0] if option.stays else "#999999"
            marker = "x" if option.broken else "o"
            half_width = 0.0 if math.isnan(known.half_width) else known.half_width / scale
            axes.errorbar(
                known.mean / scale, row, xerr=half_width, fmt=marker, color=colour, capsize=2
            )
        log_if_wide(axes, axis="x")
        axes.set_yticks(
            range(len(options)), _names([o.swept for o in options]), fontsize=SMALL_POINTS
        )
        axes.invert_yaxis()
        axes.set_xlabel(label)
        broken = "; x: violates the objective" if any(o.broken for o in options) else ""
        axes.set_title(f"{mechanism}: 95% intervals; blue: may be the best{broken}")
    return noted(drawing, warnings)


def sensitivity_figure(indices: Sequence[Index], figure: str, *, warnings: Sequence[str]) -> Figure:
    """Return total and first-order indices with their intervals, the greatest at the top."""
    indices = indices[:15]
    with style():
        drawing = ShownFigure(figsize=(WIDTH, 1.4 + 0.3 * len(indices)), layout="constrained")
        axes = drawing.subplots()
        for offset, kind, colour in ((-0.12, "total", OKABE_ITO[0]), (0.12, "first", OKABE_ITO[1])):
            at = [getattr(i, kind) for i in indices]
            below = [
                max(0.0, x - getattr(i, f"{kind}_low")) for x, i in zip(at, indices, strict=True)
            ]
            above = [
                max(0.0, getattr(i, f"{kind}_high") - x) for x, i in zip(at, indices, strict=True)
            ]
            rows = [row + offset for row in range(len(indices))]
            label = "total" if kind == "total" else "first order"
            axes.errorbar(
                at, rows, xerr=[below, above], fmt="o", color=colour, capsize=2, label=label
            )
        axes.set_yticks(range(len(indices)), [i.name for i in indices], fontsize=SMALL_POINTS)
        axes.invert_yaxis()
        axes.axvline(0.0, color="#444444", linewidth=0.8)
        what = scale_of(figure)[1].split(" (")[0]
        axes.set_xlabel(f"share of the variance of {what} (95% intervals)")
        axes.legend(fontsize=SMALL_POINTS)
    return noted(drawing, warnings)


def forecast_figure(
    expected: Sequence[Expected], level: float, *, warnings: Sequence[str]
) -> Figure:
    """Return the intervals of each metric, relative to its forecast."""
    with style():
        drawing = ShownFigure(figsize=(WIDTH, 1.4 + 0.5 * len(expected)), layout="constrained")
        axes = drawing.subplots()
        for row, known in enumerate(expected):
            intervals = (
                ("all", (known.low, known.high), OKABE_ITO[4], 9.0),
                ("calibration and arrivals", known.calibration, OKABE_ITO[0], 3.5),
            )
            for name, (low, high), colour, width in intervals:
                at = [x / known.mean if known.mean else math.nan for x in (low, high)]
                axes.plot(
                    *(at, [row, row]),
                    color=colour,
                    linewidth=width,
                    solid_capstyle="butt",
                    label=name if row == 0 else None,
                )
            axes.plot(1.0, row, "|", color="black", markersize=14)
        axes.set_yticks(range(len(expected)), [scale_of(k.figure)[1] for k in expected])
        axes.invert_yaxis()
        axes.set_xlabel(f"times the forecast ({level:.0%} intervals)")
        axes.legend(fontsize=SMALL_POINTS)
        log_if_wide(axes, axis="x")
    return noted(drawing, warnings)


def _looks(lines: Sequence[Sequence[Swept]]) -> list[Look]:
    """Return a style for each line: its mechanism's, if lines differ in the mechanism."""
    mechanisms = [{p.scenario.server.mechanism for p in members} for members in lines]
    names = [each.pop() for each in mechanisms if len(each) == 1]
    if len(set(names)) == len(lines):
        return [look_of(name) for name in names]
    return [nth_look(number) for number in range(len(lines))]


def _axis_label(field: str, value: Value) -> str:
    written = read_number(value)
    if written is None or not written.unit:
        return field
    unit = f"1{written.unit}" if written.unit.startswith("/") else written.unit
    return f"{field} ({MICROSECONDS if unit == 'us' else unit})"


def _shade_beyond(axes: Axes, connections_max: int, levels: Sequence[Value]) -> None:
    right = max(number_of(level) or 0.0 for level in levels)
    if right > connections_max:
        axes.axvspan(connections_max, right, color="#BBBBBB", alpha=0.3, label="extrapolated")


def steady_figure(runs: Sequence[RunSeries], duration_ns: int, warm_up_ns: int | None) -> Figure:
    """Return the number in the system over time, and latencies in order, averaged over runs."""
    seconds = duration_ns / SECOND_NS
    n = min(len(series.latency_ns) for series in runs)
    width = max(1, n // _POINTS)
    latencies = np.mean([series.latency_ns[:n] for series in runs], axis=0) / NS_PER_MS
    means = latencies[: n // width * width].reshape(-1, width).mean(axis=1)
    in_system = np.mean([series.in_system for series in runs], axis=0)
    with style():
        drawing = ShownFigure(figsize=(WIDTH, HEIGHT + 1), layout="constrained")
        upper, lower = drawing.subplots(2, 1)
        at = np.linspace(0, seconds, len(in_system), endpoint=False)
        upper.plot(at, in_system, color=OKABE_ITO[0], linewidth=0.9)
        upper.set_xlabel("time (s)")
        upper.set_ylabel("connections\nin the system")
        lower.plot((np.arange(len(means)) + 0.5) * width, means, color=OKABE_ITO[2], linewidth=0.9)
        lower.set_xlabel("connections, in the order in which they are due")
        lower.set_ylabel("latency (ms)")
        upper.set_xlim(0, seconds)
        lower.set_xlim(0, n)
        if warm_up_ns is not None:
            # Connections may come faster during the warm-up than later.
            due = [np.searchsorted(s.intended_ns, warm_up_ns) for s in runs]
            for axes, end in ((upper, warm_up_ns / SECOND_NS), (lower, np.mean(due))):
                axes.axvspan(0, float(end), color="#BBBBBB", alpha=0.4, label="warm-up")
        grey = "" if not warm_up_ns else "; grey: warm-up by MSER-5"
        upper.set_title(f"means of {len(runs)} runs{grey}")
    return drawing
