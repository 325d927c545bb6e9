"""The charts of the page, drawn by Bokeh in the browser.

    OverLoad    a metric against load            one line per mechanism
    OverTime    a queue over time, in one run    one line per mechanism
    Stacked     shares at the chosen load        one bar per mechanism

    item ─► an empty chart, the same for all viewers ─► embed_item ─┐
    data ─► numbers, by source                       ─► browser ────┴─► chart

A mechanism has the same colour, dashes and marker in every chart and report. A hollow marker means
that the server does not keep up. Whiskers are 95% intervals over replications.
"""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bokeh.embed import json_item
from bokeh.models import (
    ColumnDataSource,
    CustomJSTickFormatter,
    DataRange1d,
    FactorRange,
    FixedTicker,
    HBar,
    HoverTool,
    Line,
    LogTicker,
    MultiLine,
    NumeralTickFormatter,
    Range1d,
    Scatter,
    Segment,
)
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from ..validation.drawing.looks import look_of
from . import series
from .answers import Answer, Row, loads_of

HEIGHT = 250
_INK, _FAINT, _GRID = "#24303a", "#5a6773", "#e6eaee"
_FONT = "system-ui, sans-serif"
_MARKERS = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle",
    "v": "inverted_triangle",
    "P": "square_cross",
    "*": "star",
    "X": "square_x",
    "h": "hex",
    "p": "triangle_pin",
    "<": "square_pin",
}
_NO_MARKER = "dot"
_POINT_COLUMNS = ("x", "y", "low", "high", "fill", "ink", "marker", "who")
_BAR_COLUMNS = ("who", "what", "share", "left", "right", "ink")
TICK_EVERY = 3  # steps of the slider: about a factor of two
_SHORT_TIME = """
    if (tick >= 1000) return (tick / 1000) + " s";
    if (tick >= 1) return tick + " ms";
    return Math.round(tick * 1000) + " µs";
"""


def bokeh_dash(mechanism: str) -> list[int]:
    """Return the dashes of *mechanism*'s line for Bokeh; an empty list is solid."""
    dashes = look_of(mechanism).dashes
    if dashes == "-":
        return []
    if dashes == "-.":
        return [8, 3, 2, 3]
    return [round(2 * each) for each in dashes[1]]


def bokeh_marker(mechanism: str) -> str:
    """Return the marker of *mechanism* by Bokeh's name."""
    return _MARKERS.get(look_of(mechanism).marker, _NO_MARKER)


def line_chart(
    x: str,
    y: str,
    *,
    times: bool = False,
    log: bool = False,
    over_load: bool = True,
    diagonal: bool = False,
) -> str:
    """Return an empty chart of lines, as text for Bokeh in the browser.

    Parameters
    ----------
    x, y:
        Names of the axes, with units.
    times:
        Whether y is a time in ms.
    log:
        Whether y is on a logarithmic axis.
    over_load:
        Whether x is a load, on a logarithmic axis, with a line at the chosen one.
    diagonal:
        Whether to draw the line y = x.
    """
    drawn = _plain_figure(x, y, "log" if over_load else "linear", "log" if log else "linear")
    drawn.x_range = Range1d(start=1, end=10, name="x")
    drawn.y_range = DataRange1d(range_padding=0.08)
    if not log:
        drawn.y_range.start = 0
    if over_load:
        drawn.add_layout(
            Span(dimension="height", line_color="#9aa5ae", line_width=1, name="chosen")
        )
        drawn.xaxis.ticker = FixedTicker(name="ticks")
        drawn.xaxis.formatter = NumeralTickFormatter(format="0[.]0a")
    if log:
        drawn.yaxis.ticker = LogTicker(mantissas=[1], desired_num_ticks=5)
    drawn.yaxis.formatter = (
        CustomJSTickFormatter(code=_SHORT_TIME) if times else NumeralTickFormatter(format="0[.]0a")
    )
    # One glyph for all mechanisms: each glyph costs time in the viewer's browser.
    if diagonal:
        source = ColumnDataSource({"x": [], "y": []}, name="diagonal")
        drawn.add_glyph(source, Line(x="x", y="y", line_color="#9aa5ae", line_dash=[2, 3]))
    source = ColumnDataSource({"xs": [], "ys": [], "ink": [], "dash": []}, name="lines")
    drawn.add_glyph(
        source, MultiLine(xs="xs", ys="ys", line_color="ink", line_dash="dash", line_width=2)
    )
    source = ColumnDataSource({name: [] for name in _POINT_COLUMNS}, name="points")
    drawn.add_glyph(
        source,
        Segment(x0="x", y0="low", x1="x", y1="high", line_color="ink", line_width=1.5),
    )
    dots = drawn.add_glyph(
        source,
        Scatter(
            x="x", y="y", marker="marker", size=8 if over_load else 0, line_color="ink",
            fill_color="fill", line_width=1.5,
        ),
    )  # fmt: skip
    tips = [("", "@who"), (x, "@x{0,0}"), (y, "@y{0,0.[000]}")]
    if over_load:
        drawn.add_tools(HoverTool(renderers=[dots], tooltips=tips))
    return _as_text(drawn)


def lines(curves: Mapping[str, series.Curve]) -> dict[str, list[Any]]:
    """Return the lines of the *curves* of mechanisms, one row each."""
    return {
        "xs": [known.x for known in curves.values()],
        "ys": [known.y for known in curves.values()],
        "ink": [look_of(name).colour for name in curves],
        "dash": [" ".join(map(str, bokeh_dash(name))) or "solid" for name in curves],
    }


def points(curves: Mapping[str, series.Curve]) -> dict[str, list[Any]]:
    """Return the points of the *curves* of mechanisms with their intervals, one row each."""
    found: dict[str, list[Any]] = {name: [] for name in _POINT_COLUMNS}
    for name, known in curves.items():
        n, ink = len(known.x), look_of(name).colour
        found["x"] += known.x
        found["y"] += known.y
        found["low"] += known.low
        found["high"] += known.high
        found["fill"] += ["white" if behind else ink for behind in known.falls_behind]
        found["ink"] += [ink] * n
        found["marker"] += [bokeh_marker(name)] * n
        found["who"] += [name] * n
    return found


def stack_chart(x: str) -> str:
    """Return an empty chart of bars, as text for Bokeh in the browser; *x* names the shares."""
    drawn = _plain_figure(x, "", "linear", None, y_range=FactorRange(name="factors"))
    drawn.x_range = Range1d(start=0, end=1)
    drawn.xaxis.formatter = NumeralTickFormatter(format="0%")
    drawn.ygrid.visible = False
    source = ColumnDataSource({name: [] for name in _BAR_COLUMNS}, name="bars")
    bars = drawn.add_glyph(
        source,
        HBar(
            y="who", left="left", right="right", height=0.62, fill_color="ink",
            line_color="white", line_width=0.5,
        ),
    )  # fmt: skip
    tips = [("", "@who"), ("", "@what: @share{0.0%}")]
    drawn.add_tools(HoverTool(renderers=[bars], tooltips=tips))
    return _as_text(drawn)


def _as_text(drawn: Any) -> str:
    """Return a chart for Bokeh's `embed_item`: made once, shown to all viewers."""
    return json.dumps(json_item(drawn), allow_nan=False)


def _plain_figure(x: str, y: str, x_type: Any, y_type: Any, **ranges: Any) -> Any:
    """Return an empty chart without toolbar, tools or outline."""
    if y_type is not None:
        ranges["y_axis_type"] = y_type
    drawn = figure(
        height=HEIGHT, sizing_mode="stretch_width", toolbar_location=None, tools="",
        x_axis_type=x_type, x_axis_label=x, y_axis_label=y or None, outline_line_color=None,
        background_fill_color="white", border_fill_color="white", min_border_right=14,
        lod_threshold=None, **ranges,
    )  # fmt: skip
    for axis in drawn.axis:
        axis.update(
            axis_line_color="#b8c1c9", major_tick_line_color="#b8c1c9",
            minor_tick_line_color=None, major_label_text_color=_FAINT,
            major_label_text_font_size="12px", axis_label_text_font_size="12px",
            axis_label_text_font_style="normal", axis_label_text_color=_FAINT,
            axis_label_text_font=_FONT, major_label_text_font=_FONT,
        )  # fmt: skip
    for grid in drawn.grid:
        grid.grid_line_color = _GRID
    return drawn


_NS_PER_MS = 1e6
_OFFERED = "connections offered per second"
_ACCEPT_QUEUE, _READY = 1, 2


@dataclass(frozen=True)
class Panel(ABC):
    """A chart: *key* in the page, *title* above it, *about* it in one sentence."""

    key: str
    title: str
    about: str

    @functools.cached_property
    @abstractmethod
    def item(self) -> str:
        """The empty chart, for Bokeh in the browser."""

    @abstractmethod
    def data(self, answer: Answer) -> dict[str, Any]:
        """Return what it shows of *answer*."""

    @abstractmethod
    def table(self, answer: Answer) -> series.Table:
        """Return the same as texts."""

    def colours(self, answer: Answer) -> list[list[str]]:
        """Return [colour, name] of the parts of bars; empty for lines."""
        del answer
        return []

    def content(self, answer: Answer) -> dict[str, Any]:
        """Return the content for *answer*, for the browser."""
        return {
            **self.data(answer),
            "table": self.table(answer)._asdict(),
            "colours": self.colours(answer),
        }


@dataclass(frozen=True)
class OverLoad(Panel):
    """A metric against load.

    Attributes
    ----------
    metric:
        Its name in the table of metrics.
    axis, unit:
        Name of the axis, and unit in the table; times are in ms.
    is_time, log, diagonal:
        As for `line_chart`.
    """

    metric: str
    axis: str
    unit: str
    is_time: bool = False
    log: bool = False
    diagonal: bool = False

    @property
    def scale(self) -> float:
        """The chart's unit in base units of the metric."""
        return _NS_PER_MS if self.is_time else 1.0

    @functools.cached_property
    def item(self) -> str:
        """The empty chart, for Bokeh in the browser."""
        return line_chart(
            _OFFERED, self.axis, times=self.is_time, log=self.log, diagonal=self.diagonal
        )

    def data(self, answer: Answer) -> dict[str, Any]:
        """Return what it shows of *answer*."""
        loads = loads_of(answer.view)
        curves = {n: series.curve(answer, n, self.metric, self.scale) for n in answer.mechanisms}
        sources: dict[str, Any] = {"lines": lines(curves), "points": points(curves)}
        if self.diagonal:
            # On a logarithmic axis it takes many points to draw y = x.
            sources["diagonal"] = {"x": list(loads), "y": list(loads)}
        return {
            "sources": sources,
            # A margin, so that markers at the ends are whole.
            "x": [loads[0] / 1.06, loads[-1] * 1.06],
            "ticks": list(loads[::TICK_EVERY]),
            "chosen": answer.view.rate,
        }

    def table(self, answer: Answer) -> series.Table:
        """Return the same as texts."""
        return series.curve_table(answer, self.metric, self.scale, self.unit)


@dataclass(frozen=True)
class OverTime(Panel):
    """The length of a queue in the first of the runs, a *column* of `Reply.queues`."""

    column: int

    @functools.cached_property
    def item(self) -> str:
        """The empty chart, for Bokeh in the browser."""
        return line_chart("ms since the start", "connections", over_load=False)

    def data(self, answer: Answer) -> dict[str, Any]:
        """Return what it shows of *answer*."""
        curves, longest = {}, 1.0
        for name in answer.mechanisms:
            at, lengths = series.queue(answer, name, self.column)
            curves[name] = series.Curve(at, lengths, lengths, lengths, [False] * len(at))
            longest = max(longest, *at, 1.0)
        return {"sources": {"lines": lines(curves)}, "x": [0.0, longest]}

    def table(self, answer: Answer) -> series.Table:
        """Return the same as texts."""
        return series.queue_table(answer, self.column)


@dataclass(frozen=True)
class Stacked(Panel):
    """Shares of *whole* at the chosen load, by their *parts*: see `series.stack`."""

    whole: str
    parts: Mapping[str, series.Part]
    share: Callable[[Row, str], float]

    @functools.cached_property
    def item(self) -> str:
        """The empty chart, for Bokeh in the browser."""
        return stack_chart(f"share of the {self.whole}")

    def shares(self, answer: Answer) -> dict[str, list[float]]:
        """Return the shares by part, one number per mechanism."""
        return series.stack(answer, self.parts, self.share)

    def data(self, answer: Answer) -> dict[str, Any]:
        """Return what it shows of *answer*."""
        names, shares = [row.mechanism for row in answer.chosen], self.shares(answer)
        bars: dict[str, list[Any]] = {name: [] for name in _BAR_COLUMNS}
        for i, name in enumerate(names):
            left = 0.0
            for part, values in shares.items():
                right = left + values[i]
                row = (name, part, values[i], left, right, self.parts[part].colour)
                for column, value in zip(_BAR_COLUMNS, row, strict=True):
                    bars[column].append(value)
                left = right
        return {"sources": {"bars": bars}, "factors": list(reversed(names))}

    def table(self, answer: Answer) -> series.Table:
        """Return the same as texts."""
        return series.stack_table(answer, self.shares(answer), self.title)

    def colours(self, answer: Answer) -> list[list[str]]:
        """Return [colour, name] of the parts that are there."""
        shares = self.shares(answer)
        return [[part.colour, name] for name, part in self.parts.items() if any(shares[name])]


PANELS: tuple[Panel, ...] = (
    OverLoad(
        "answered",
        "How many requests are served",
        "Replies per second against load. Dotted: one reply per connection. "
        "Hollow: the server does not keep up.",
        metric="throughput_per_s",
        axis="replies per second",
        unit="per second",
        diagonal=True,
    ),
    OverLoad(
        "p99",
        "How long the slowest wait",
        "99% of all requests get their reply within this time; no point if 1% or more fail.",
        metric="p99_ns",
        axis="99% within",
        unit="ms",
        is_time=True,
        log=True,
    ),
    OverLoad(
        "p50",
        "How long clients usually wait",
        "Half of the requests with a reply get it within this time.",
        metric="p50_answered_ns",
        axis="half within",
        unit="ms",
        is_time=True,
        log=True,
    ),
    Stacked(
        "cpu",
        "Where the processor's time goes",
        "At the chosen load, by system call; the rest up to 100% is idle.",
        whole="processor's time",
        parts=series.CPU_PARTS,
        share=series.cpu_share,
    ),
    OverLoad(
        "events",
        "Events per wait",
        "The more events one call returns, the less each event costs.",
        metric="events_per_wait",
        axis="events per call",
        unit="events per call",
        log=True,
    ),
    Stacked(
        "errors",
        "What becomes of the clients",
        "At the chosen load, as shares of all clients.",
        whole="clients",
        parts=series.FATE_PARTS,
        share=series.fate_share,
    ),
    OverTime(
        "accepts",
        "Waiting to be accepted",
        "New connections in the backlog over time, in one run at the chosen load.",
        column=_ACCEPT_QUEUE,
    ),
    OverTime(
        "ready",
        "Ready, waiting to be served",
        "Connections with work to do over time, in one run at the chosen load.",
        column=_READY,
    ),
)
"""The charts, the same for all viewers, in the order of the page."""
