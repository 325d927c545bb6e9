"""The charts, drawn by Bokeh in the browser: made once for all viewers, then given numbers.

    line_chart    a figure against load, or a length over time     a line a mechanism
    stack_chart   shares at the chosen load                        a bar a mechanism

    line_chart ─► text, the same for all ─► embed_item ─┐
    load_data  ─► numbers, by source     ─► browser ────┴─► chart

A mechanism looks the same in every chart and report: colour, dashes and marker. Hollow markers are
where the server does not keep up, whiskers are 95% intervals over replications.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
from .series import Curve

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
_TICK_EVERY = 3  # steps of the slider: about a factor of two
CPU_COLOURS = (
    "#332288",
    "#88CCEE",
    "#44AA99",
    "#117733",
    "#999933",
    "#DDCC77",
    "#CC6677",
    "#882255",
    "#AA4499",
    "#BBBBBB",
)
"""Of Paul Tol's scheme "muted", for people with any colour vision."""
FATE_COLOURS = (
    "#C3CED6",
    "#88CCEE",
    "#882255",
    "#CC6677",
    "#332288",
    "#117733",
    "#DDCC77",
    "#999933",
    "#44AA99",
)
"""Of the same: who is answered is no news, and pale."""
_SHORT_TIME = """
    if (tick >= 1000) return (tick / 1000) + " s";
    if (tick >= 1) return tick + " ms";
    return Math.round(tick * 1000) + " µs";
"""


def bokeh_dash(mechanism: str) -> list[int]:
    """Return the dashes of *mechanism*'s line as Bokeh takes them; none: it is solid."""
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
        What the axes are called, with units.
    times:
        Whether y is a time in ms.
    log:
        Whether y is on a logarithmic axis.
    over_load:
        Whether x is a load, on a logarithmic axis, with a line at the chosen one.
    diagonal:
        Whether to draw where y would be x.
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
    # One glyph for all mechanisms: a viewer's browser makes them, and each takes its time.
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


def lines(curves: Mapping[str, Curve]) -> dict[str, list[Any]]:
    """Return the lines of the *curves* of mechanisms, a row each."""
    return {
        "xs": [curve.x for curve in curves.values()],
        "ys": [curve.y for curve in curves.values()],
        "ink": [look_of(name).colour for name in curves],
        "dash": [" ".join(map(str, bokeh_dash(name))) or "solid" for name in curves],
    }


def points(curves: Mapping[str, Curve]) -> dict[str, list[Any]]:
    """Return the points of the *curves* of mechanisms with their intervals, a row each."""
    found: dict[str, list[Any]] = {name: [] for name in _POINT_COLUMNS}
    for name, curve in curves.items():
        n, ink = len(curve.x), look_of(name).colour
        found["x"] += curve.x
        found["y"] += curve.y
        found["low"] += curve.low
        found["high"] += curve.high
        found["fill"] += ["white" if behind else ink for behind in curve.falls_behind]
        found["ink"] += [ink] * n
        found["marker"] += [bokeh_marker(name)] * n
        found["who"] += [name] * n
    return found


def load_data(
    loads: Sequence[int], chosen: int, curves: Mapping[str, Curve], *, diagonal: bool = False
) -> dict[str, Any]:
    """Return all that a chart over *loads* shows, with a line at the *chosen* one."""
    sources: dict[str, Any] = {"lines": lines(curves), "points": points(curves)}
    if diagonal:
        # On a logarithmic axis it takes many points to draw y = x.
        sources["diagonal"] = {"x": list(loads), "y": list(loads)}
    return {
        "sources": sources,
        # A little room, so that markers at the ends are whole.
        "x": [loads[0] / 1.06, loads[-1] * 1.06],
        "ticks": list(loads[::_TICK_EVERY]),
        "chosen": chosen,
    }


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


def stack_data(
    names: Sequence[str], stack: Mapping[str, Sequence[float]], colours: Sequence[str]
) -> dict[str, Any]:
    """Return what a chart of bars shows: one of each of *names*, from the top."""
    bars: dict[str, list[Any]] = {name: [] for name in _BAR_COLUMNS}
    for i, name in enumerate(names):
        left = 0.0
        for (what, shares), colour in zip(stack.items(), colours, strict=True):
            bars["who"].append(name)
            bars["what"].append(what)
            bars["share"].append(shares[i])
            bars["left"].append(left)
            left += shares[i]
            bars["right"].append(left)
            bars["ink"].append(colour)
    return {"sources": {"bars": bars}, "factors": list(reversed(names))}


def _as_text(drawn: Any) -> str:
    """Return a figure as Bokeh's `embed_item` takes it: made once, shown to all viewers."""
    return json.dumps(json_item(drawn), allow_nan=False)


def _plain_figure(x: str, y: str, x_type: Any, y_type: Any, **ranges: Any) -> Any:
    """Return an empty figure without what nobody asked for."""
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
