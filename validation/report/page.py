"""Sections of any report: as a page, as picture files, in a terminal.

    Shown ─┬─► report.html     no script, no other file, everything escaped
           ├─► figures/        PNG and SVG
           └─► a terminal of 100 columns: a screen or two

Errors carry a sign (+: the forecast is above the measurement) and are factors beyond two
(`signed`). A missing value, None or NaN, is a dash.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from matplotlib.figure import Figure
from rich.console import Console
from rich.text import Text

from ...scenario.formats import share_text
from ...sim.files.tables import DASH, Table, rich_table
from ..drawing.figures import save_figures, to_svg
from ..forecast.provenance import Provenance
from ..points.measured_points import Spread
from ..scoring.value_verdicts import ONE_RUN, signed

STYLES = {
    "reached": "green", "missed": "bold red", "no": "red", "not measured": "yellow",
    "better": "green", "worse": "red",
}  # fmt: skip
"""The terminal style of each verdict."""


def number(value: float | None) -> str:
    """Return *value* with about three digits and a letter for thousands.

    >>> [number(v) for v in (87.4, 2557.0, 25002.0, 1_390_000.0)]
    ['87', '2557', '25.0k', '1.39M']
    """
    if value is None or math.isnan(value):
        return DASH
    if value < 9_999.5:
        return f"{value:.0f}"
    return f"{value / 1000:.1f}k" if value < 999_950 else f"{value / 1_000_000:.2f}M"


def microseconds(value_ns: float) -> str:
    """Return a time in µs, without its unit."""
    return number(value_ns / 1000)


def interval(ends: tuple[float, float]) -> str:
    """Return the text of an interval."""
    return DASH if math.isnan(ends[0]) else f"{number(ends[0])}{DASH}{number(ends[1])}"


def scatter(spread: Spread, median: float) -> str:
    """Return half the range of the repeats over their median, or "one run".

    With six or more repeats it is half the 95% interval of the median.
    """
    if math.isnan(median) or not median:
        return DASH
    if math.isnan(spread.low):
        return ONE_RUN
    half = (spread.high - spread.low) / 2 / median
    return f"{half:.1%}" if half < 0.0995 else f"{half:.0%}"


def points(value: float | None) -> str:
    """Return a difference of shares in percentage points."""
    return DASH if value is None else f"{100 * value:+.1f}"


def percent(value: float | None) -> str:
    """Return a share in whole percents."""
    return DASH if value is None or math.isnan(value) else f"{value:.0%}"


def tenths(value: float | None) -> str:
    """Return a share to a tenth of a percent, as in all tables.

    >>> tenths(0.1234), tenths(0.0004), tenths(0.0)
    ('12.3%', 'under 0.1%', '0.0%')
    """
    return DASH if value is None or math.isnan(value) else share_text(value)


def yes_no(value: bool | None) -> str:
    """Return "yes", "no" or a dash."""
    return DASH if value is None else "yes" if value else "no"


def error_text(error: float | None, limit: float | None = None) -> str:
    """Return a relative error with its sign, and an exclamation mark beyond *limit*.

    >>> [error_text(0.0012), error_text(-0.234), error_text(0.021, limit=0.02)]
    ['+0.12%', '-23%', '+2.1%!']
    """
    if error is None:
        return DASH
    text = f"{error:+.2%}" if abs(error) < 0.00995 else signed(error)
    return text + ("!" if limit is not None and abs(error) > limit else "")


def size_text(value: float | None) -> str:
    """Return an absolute error."""
    return DASH if value is None else error_text(value).lstrip("+")


def count_text(value: float | None) -> str:
    """Return a count per request with three digits.

    >>> [count_text(value) for value in (0.0123, 1.8349, 12.34, 1234.5)]
    ['0.012', '1.835', '12.3', '1234']
    """
    if value is None or math.isnan(value):
        return DASH
    digits = 3 if value < 9.9995 else 1 if value < 999.95 else 0
    return f"{value:.{digits}f}"


Fact = tuple[str, str]
"""A name and a text."""


class DrawnFigure(NamedTuple):
    """A picture and its caption."""

    figure: Figure
    caption: str


@dataclass(frozen=True)
class Shown:
    """The parts of one section that a report shows.

    Attributes
    ----------
    title, text, summary:
        Heading, introduction, and the result in a sentence.
    name:
        The machine or server; distinguishes its pictures from those of other sections.
    first:
        Tables of targets and results, above the pictures.
    tables, folded:
        All other tables; tables that a page folds, by title.
    brief, closing:
        The tables that a terminal shows by default; a sentence after the tables of a terminal.
    screen:
        The tables that a terminal shows in full.
    figures, leading:
        Returns the pictures by file name; the names of the pictures above all tables.
    facts:
        Provenance, as (name, text).
    seeds:
        The arrival seeds of each point.
    """

    title: str
    text: str
    name: str
    first: Sequence[Table]
    tables: Sequence[Table] = ()
    folded: Sequence[tuple[str, Sequence[Table]]] = ()
    brief: Sequence[Table] = ()
    closing: str = ""
    screen: Sequence[Table] = ()
    figures: Callable[[], Mapping[str, DrawnFigure]] = dict
    leading: Sequence[str] = ()
    notices: Sequence[str] = ()
    facts: Sequence[Fact] = ()
    seeds: Sequence[Fact] = ()
    heading: str = ""
    summary: str = ""


def page(sections: Sequence[Shown], effects: Table | None = None) -> str:
    """Return the page of *sections*."""
    return rendered("report.html.jinja", sections=sections, effects=effects)


def rendered(template: str, **values: Any) -> str:
    """Return the page of *template* with *values*; all text is escaped except `Markup`."""
    environment = Environment(
        loader=PackageLoader("dispatchsim.validation", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = _inline_svg
    return environment.get_template(template).render(**values)


def _inline_svg(figure: Figure, name: str) -> Markup:
    """Return the picture as SVG without the prolog of an XML file."""
    svg = to_svg(figure, name)
    # Markup: matplotlib has escaped every text in its own SVG.
    return Markup(svg[svg.index("<svg") :])


def write_figures(sections: Mapping[str, Sequence[Shown]], folder: Path) -> list[Path]:
    """Write the pictures of *sections* into *folder*; several of a kind get a section's name."""
    return save_figures(
        {
            name if len(alike) == 1 else f"{shown.name}_{name}": drawn.figure
            for alike in sections.values()
            for shown in alike
            for name, drawn in shown.figures().items()
        },
        folder,
    )


def print_sections(
    console: Console,
    sections: Sequence[Shown],
    paths: Sequence[Path],
    effects: Table | None = None,
    *,
    full: bool = True,
) -> None:
    """Print each section (heading, summary, tables, notices), then *paths*.

    Unless *full*, the tables are the brief ones, without *effects*.
    """
    for shown in sections:
        console.print(Text(shown.heading or shown.title))
        if shown.summary:
            console.print(Text(shown.summary, style="bold"))
        for table in shown.screen if full else shown.brief:
            console.print()
            console.print(rich_table(table, STYLES))
        if shown.closing:
            console.print()
            console.print(Text(shown.closing))
        if shown.notices:
            console.print()
        for notice in shown.notices:
            console.print(Text(f"warning: {notice}", style="yellow"))
        console.print()
    if effects and full:
        console.print(rich_table(effects, STYLES))
        console.print()
    if not full:
        console.print(Text("Every table and point (--full prints them here):"))
    for path in paths:
        console.print(Text(str(path)), soft_wrap=True)


def heading_of(title: str, p: Provenance) -> str:
    """Return the heading of a section in a terminal."""
    draws = f", {p.method['draws']} cost samples" if "draws" in p.method else ""
    most = max(p.rejected_by_reason, key=p.rejected_by_reason.__getitem__, default="")
    why = ""
    if most in REJECTED:
        why = f" ({p.rejected_by_reason[most]} because {REJECTED[most]})"
    return (
        f"{title}: profile {p.profile}{draws}; {p.n_runs} runs, {p.n_rejected} rejected{why}; "
        f"code {p.code}"
    )


REJECTED = {
    "memory_ratio": "other guests slowed down the memory",
    "spin_ratio": "the CPU was slow",
    "steal_share": "the host took CPU time",
    "server_delay_share": "the server waited for its CPU",
    "client_delay_share": "the load generator waited for its CPU",
    "foreign_share": "other programs of the machine ran",
    "lag_p50_ns": "the load generator was late",
}
"""The reasons for which most runs are rejected, in words; see calibration/records/noise.py."""


METHOD = {
    "draws": "cost samples",
    "seeds_by_point_max": "arrival seeds per point, at most",
    "noise_limits": "noise limits",
}
"""The names of a method's settings in the provenance."""


def facts_of(p: Provenance) -> list[Fact]:
    """Return the provenance as (name, text)."""
    facts: list[tuple[str, Any]] = [
        ("section written", p.date),
        ("profile", f"{p.profile} ({p.profile_hash})"),
        ("measured", f"{p.measured_from} to {p.measured_to}"),
        ("measuring programs", p.measured_code),
        ("packet steering", p.steering),
        ("simulator", f"dispatchsim {p.version}, sources {p.code}, Python {p.python}"),
        *((METHOD.get(name, name), value) for name, value in p.method.items()),
        ("runs", f"{p.n_runs}, {p.n_rejected} of them rejected"),
        ("reasons for rejection", p.rejected_by_reason or "none"),
        *((f"machine: {name}", value) for name, value in p.machine.items()),
    ]
    return [(name, _words(value)) for name, value in facts]


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_words(item) for item in value)
    return str(value)
