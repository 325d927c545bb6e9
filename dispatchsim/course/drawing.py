"""The pictures of the lessons: SVG, with a sentence for readers who cannot see them.

    `Figure` ──► Picture ──► `<div role="img" aria-label="..."> <svg>`

Colours, markers and dashes are those of all pictures of the project (validation/drawing/looks.py).

lines_figure        series outside an experiment, on axes of their own
stacked_figure      one bar per case, its parts stacked; shares_figure: one bar per share
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from ..validation.drawing.figures import legend, style, to_svg
from ..validation.drawing.looks import Look, look_of, nth_look

# On a narrow page a picture scrolls sideways rather than shrinks until it is unreadable.
_STYLE = "margin: 0; overflow-x: auto"
_SVG_STYLE = "max-width: 100%; min-width: 30em; height: auto"
_N_LOOKS = 35  # distinct ones
_PROLOGUE = re.compile(r"^.*?(?=<svg)", re.S)


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture, and its content in a sentence."""

    figure: Figure
    says: str

    def _repr_html_(self) -> str:
        svg = _PROLOGUE.sub("", to_svg(self.figure, self.says))
        svg = svg.replace("<svg ", f'<svg style="{_SVG_STYLE}" ', 1)
        label = html.escape(self.says, quote=True)
        return f'<div role="img" aria-label="{label}" style="{_STYLE}">{svg}</div>'

    def __repr__(self) -> str:
        """Return the sentence."""
        return f"<Picture: {self.says}>"


def looks_of(names: list[str]) -> dict[str, Look]:
    """Return the style of each series: mechanisms as everywhere, others distinct from these."""
    known = {name: look_of(name) for name in names if look_of(name) != look_of("")}
    taken = {look.colour for look in known.values()}
    left = [look for look in map(nth_look, range(_N_LOOKS)) if look not in known.values()]
    others = iter(sorted(left, key=lambda look: look.colour in taken))  # keeps their order
    return {name: known[name] if name in known else next(others) for name in names}


COLUMNS, PANEL_WIDTH, PANEL_HEIGHT = 2, 3.7, 2.5
_LABEL_SHARE = 0.17
"""Share of a panel's width that a label takes."""
_LOG_FROM = 5
"""A factor: values with a wider span get a logarithmic axis, if their metric allows one."""
_REST, _GREY = "rest", "#BBBBBB"
HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "++", "--")


def place_labels(places: Sequence[float], is_log: bool) -> list[str]:
    """Return the label below each place, empty if it would touch the one before."""
    at = np.log(places) if is_log else np.asarray(places, float)
    width = (at[-1] - at[0]) * _LABEL_SHARE if len(at) > 1 else 0.0
    labels, last = [], -math.inf
    for place, position in zip(places, at, strict=True):
        touches = position - last < width
        labels.append("" if touches else f"{place:,g}")
        last = last if touches else position
    return labels


def scale_values(axes: Axes, values: Sequence[float], *, is_log: bool, top: float | None) -> None:
    """Set the vertical axis: logarithmic if the values span much, else from 0 to *top*."""
    found = np.asarray(values, float)
    found = found[np.isfinite(found)]
    if is_log and found.size and found.min() > 0 and found.max() > _LOG_FROM * found.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.minorticks_off()
    else:
        axes.set_ylim(0, top if found.any() else top or 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def lines_figure(
    title: str,
    axis: str,
    label: str,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    ticks: Mapping[float, str] | None = None,
    is_log: bool = False,
    without_line: Sequence[str] = (),
) -> Figure:
    """Return one panel with a line for each of *lines*.

    Parameters
    ----------
    title, axis, label:
        Title of the picture, and labels of its axes with their units.
    lines:
        Positions and values, by name.
    ticks:
        Labels below some positions; None: the positions.
    is_log:
        Whether values may have a logarithmic axis.
    without_line:
        Series drawn as points only.
    """
    with style():
        drawing = Figure(figsize=(7.0, 4.0), layout="constrained")
        axes = drawing.subplots()
        looks = looks_of(list(lines))
        for name, (at, values) in lines.items():
            look = looks[name]
            axes.plot(
                at, values, color=look.colour, marker=look.marker, markersize=5, linewidth=1.4,
                linestyle="none" if name in without_line else look.dashes,
            )  # fmt: skip
        axes.set(xlabel=axis, ylabel=label, title=title)
        if ticks is not None:
            axes.set_xticks(list(ticks), list(ticks.values()))
        shown = [value for _, values in lines.values() for value in values]
        scale_values(axes, shown, is_log=is_log, top=None)
        legend(drawing, looks)
    return drawing


def stacked_figure(
    title: str, label: str, bars: Mapping[str, Mapping[str, float]], *, least: float = 0.0
) -> Figure:
    """Return a horizontal bar for each of *bars*, its parts stacked, those above *least* named.

    Parameters
    ----------
    title, label:
        Title of the picture, and label of its axis with the unit.
    bars:
        Name of a bar -> its parts, by name.
    least:
        Parts that are larger in no bar are summed as "rest".
    """
    names = _large_parts(bars.values(), least)
    with style():
        drawing = Figure(figsize=(7.0, 1.9 + 0.45 * len(bars)), layout="constrained")
        axes = drawing.subplots()
        for row, parts in enumerate(bars.values()):
            left = 0.0
            rest = sum(value for name, value in parts.items() if name not in names)
            for i, name in enumerate([*names, _REST]):
                value = rest if name == _REST else parts.get(name, 0.0)
                colour = _GREY if name == _REST else nth_look(i).colour
                axes.barh(
                    row, value, left=left, color=colour, edgecolor="white", height=0.7,
                    hatch=HATCHES[i % len(HATCHES)], label=name if row == 0 else None,
                )  # fmt: skip
                left += value
        axes.set_yticks(range(len(bars)), list(bars))
        axes.invert_yaxis()
        axes.set(xlabel=label, title=title)
        axes.grid(visible=False, axis="y")
        drawing.legend(loc="outside lower center", ncols=4, fontsize=8)
    return drawing


def _large_parts(bars: Iterable[Mapping[str, float]], least: float) -> list[str]:
    names: dict[str, None] = {}
    for parts in bars:
        names.update(dict.fromkeys(name for name, value in parts.items() if value > least))
    return list(names)


def shares_figure(title: str, label: str, bars: Mapping[str, float], *, promised: float) -> Figure:
    """Return a horizontal bar for each of *bars*, in percent, and a line at *promised*."""
    with style():
        drawing = Figure(figsize=(7.0, 1.2 + 0.45 * len(bars)), layout="constrained")
        axes = drawing.subplots()
        for row, (look, share) in enumerate(
            zip(looks_of(list(bars)).values(), bars.values(), strict=True)
        ):
            axes.barh(row, share, color=look.colour, height=0.6, hatch=HATCHES[row])
            axes.text(2, row, f"{share:.0f}", va="center", bbox={"color": "white", "pad": 1.5})
        axes.axvline(promised, color="black", linewidth=1, linestyle="--")
        axes.set_yticks(range(len(bars)), list(bars))
        axes.invert_yaxis()
        axes.set(xlabel=f"{label}; dashed: nominal {promised:g}", title=title, xlim=(0, 108))
        axes.grid(visible=False, axis="y")
    return drawing
