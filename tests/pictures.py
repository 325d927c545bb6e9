"""What every picture owes its reader: names and units on axes, no text cut off, few font sizes."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.axis import Tick
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from dispatchsim.validation.drawing.figures import NOTE_POINTS, SMALL_POINTS, style

_SIZES = {NOTE_POINTS, SMALL_POINTS, 9.0, 10.0}
"""Points: notes and names in bars, legends and long names, axes, titles."""
_SLACK_PX = 1.5
_COUNTED = (
    "connections",
    "datagrams",
    "events",
    "points",
    "users",
    "workers",
    "replies",
    "reply",
    "share",
    "index",
    "runs",
)
"""What a number without a unit is a number of."""


def check_picture(figure: Figure) -> Figure:
    """Return *figure*, if it is as a picture should be; say what is not."""
    with style():
        canvas = FigureCanvasAgg(figure)
        figure.draw(canvas.get_renderer())  # type: ignore[no-untyped-call]
        frame = figure.bbox
        for text in _texts(figure):
            box = text.get_window_extent()
            inside = box.x0 >= -_SLACK_PX and box.x1 <= frame.x1 + _SLACK_PX
            inside = inside and box.y0 >= -_SLACK_PX and box.y1 <= frame.y1 + _SLACK_PX
            assert inside, f"cut off: {text.get_text()!r}"
            assert text.get_fontsize() in _SIZES, (text.get_text(), text.get_fontsize())
        for axes in figure.axes:
            if axes.get_visible():
                _check_axes(figure, axes)
    return figure


def _texts(figure: Figure) -> list[Text]:
    """Return the texts that are drawn: not the labels of ticks that are kept for later use."""
    kept = {
        id(label)
        for tick in figure.findobj(Tick)
        if isinstance(tick, Tick)
        for label in (tick.label1, tick.label2)
    }
    free = [
        text for text in figure.findobj(Text) if isinstance(text, Text) and id(text) not in kept
    ]
    drawn = [label for axes in figure.axes if axes.get_visible() for label in _tick_labels(axes)]
    found = [text for text in free if text.axes is None or text.axes.get_visible()] + drawn
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def _tick_labels(axes: Axes) -> list[Text]:
    found = []
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if low <= tick.get_loc() <= high:
                found.append(tick.label1)
    return found


def _check_axes(figure: Figure, axes: Axes) -> None:
    """Check that each axis with numbers says what they are, and in which unit."""
    whole = {"x": figure.get_supxlabel(), "y": figure.get_supylabel()}
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        labels = [t.get_text() for t in axis.get_ticklabels() if t.get_visible()]
        numbers = [text for text in labels if text and _is_number(text)]
        if len(numbers) < len([text for text in labels if text]) or not numbers:
            continue  # names, or an inner axis that shares the labels of another
        shared = axes.get_shared_x_axes() if name == "x" else axes.get_shared_y_axes()
        said = [
            (other.xaxis if name == "x" else other.yaxis).get_label_text()
            for other in figure.axes
            if other is axes or shared.joined(axes, other)
        ]
        said = [text for text in (*said, whole[name]) if text]
        assert said, f"{name} axis of {axes.get_title()!r}: no label"
        assert any("(" in text or _is_count(text) for text in said), f"no unit: {said}"


def _is_count(text: str) -> bool:
    return any(word in text for word in _COUNTED) or " per " in text


def _is_number(text: str) -> bool:
    plain = text.replace("\N{MINUS SIGN}", "-").replace(",", "").strip(" %+±")
    try:
        float(plain)
    except ValueError:
        return False
    return True
