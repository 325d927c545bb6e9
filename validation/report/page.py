"""The report as one page: no script, no other file, everything escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from ..drawing.figures import to_svg
from ..forecast.provenance import Provenance
from .effects_table import effects_table
from .hardware_section import HardwareSection
from .noise_free_regimes import regime_table
from .noise_free_section import NoiseFreeSection
from .noise_free_tables import (
    count_tables,
    function_table,
    group_tables,
    ledger_table,
    point_tables,
    promise_table,
    worst_table,
)
from .overload_section import TEXT as OVERLOAD_TEXT
from .overload_section import OverloadSection
from .overload_tables import overload_tables
from .pictures import DrawnFigure, drawn_overload, hardware_figures, section_figures
from .tables import missing_table, score_tables, target_table

if TYPE_CHECKING:
    from .report import Report

_HARDWARE = (
    "Every point below was measured with the C server of the mechanism and forecast by the "
    "simulator from costs that were fitted without it. + means that the forecast is above the "
    "measurement."
)
_NOISE_FREE = (
    "The same C servers on a kernel in an emulator that counts instructions, one a nanosecond: a "
    "run repeats exactly, so every run is set beside the simulation of its own arrivals, and "
    "whatever differs is an effect that the model lacks or a cost that it has wrong. It says "
    "nothing about caches."
)


def render_html(report: Report) -> str:
    """Return the page of *report*."""
    sections = [
        *(_hardware(section) for section in report.hardware),
        *(_overload(section) for section in report.overload),
        *(_noise_free(section) for section in report.noise_free),
    ]
    return rendered(
        "report.html.jinja",
        sections=sections,
        effects=effects_table(report.effects) if report.effects else None,
    )


def rendered(template: str, **values: Any) -> str:
    """Return the page of *template* with *values*, all escaped but what is marked up already."""
    environment = Environment(
        loader=PackageLoader("dispatchsim.validation", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def inline_svg(svg: str) -> str:
    """Return *svg* without what may only stand at the beginning of a file."""
    return svg[svg.index("<svg") :]


def _hardware(section: HardwareSection) -> dict[str, Any]:
    missing = [missing_table(section.missing)] if section.missing else []
    return {
        "title": f"On hardware: {section.name}",
        "text": _HARDWARE,
        "notices": section.provenance.notices,
        "first": [target_table(section.targets)],
        "figures": figures_as_svg(section.name, hardware_figures(section)),
        "tables": [*score_tables(section.scores), *missing],
        "folded": [],
        "provenance": facts_of(section.provenance),
        "seeds": [
            (entry.measured.point.label, ", ".join(map(str, entry.forecast.seeds)))
            for entry in section.scores
        ],
    }


def _overload(section: OverloadSection) -> dict[str, Any]:
    first, *tables = overload_tables(section.compared)
    n_runs = sum(entry.n_runs for entry in section.compared)
    n_rejected = sum(entry.n_rejected for entry in section.compared)
    return {
        "title": f"Overload: {section.name}",
        "text": OVERLOAD_TEXT,
        "notices": [],
        "first": [first],
        "figures": figures_as_svg(section.name, drawn_overload(section)),
        "tables": [],
        "folded": [("Every point", tables)],
        "provenance": [("runs", f"{n_runs} accepted, {n_rejected} of the same points rejected")],
        "seeds": [],
    }


def _noise_free(section: NoiseFreeSection) -> dict[str, Any]:
    missing = [missing_table(section.missing)] if section.missing else []
    scores = section.scores
    functions = [("Functions", [function_table(ledger) for ledger in section.ledgers])]
    return {
        "title": f"Without noise: {section.name}",
        "text": _NOISE_FREE,
        "notices": section.provenance.notices,
        "first": [promise_table(section.promises), regime_table(scores), *group_tables(scores)],
        "figures": figures_as_svg(section.name, section_figures(section)),
        "tables": [
            worst_table(scores),
            *(ledger_table(ledger) for ledger in section.ledgers),
            *missing,
        ],
        "folded": [
            ("Every point", point_tables(scores)),
            ("Counts", count_tables(scores)),
            *(functions if section.ledgers else []),
        ],
        "provenance": facts_of(section.provenance),
        "seeds": [],
    }


def figures_as_svg(machine: str, drawn: dict[str, DrawnFigure]) -> list[dict[str, Any]]:
    """Return the figures of a section with their captions, as the page holds them."""
    return [
        # Markup: matplotlib has escaped every text in its own SVG.
        {
            "svg": Markup(inline_svg(to_svg(entry.figure, f"{machine} {name}"))),
            "caption": entry.caption,
        }
        for name, entry in drawn.items()
    ]


def facts_of(p: Provenance) -> list[tuple[str, str]]:
    """Return the provenance as (name, text)."""
    facts: list[tuple[str, Any]] = [
        ("section written", p.date),
        ("profile", f"{p.profile} ({p.profile_hash})"),
        ("measured", f"{p.measured_from} to {p.measured_to}"),
        ("measuring programs", p.measured_code),
        ("packet steering", p.steering),
        ("simulator", f"dispatchsim {p.version}, sources {p.code}, Python {p.python}"),
        *((name.replace("_", " "), value) for name, value in p.method.items()),
        ("runs", f"{p.n_runs}, of which {p.n_rejected} were rejected"),
        ("rejected because of", p.rejected_by_reason or "nothing"),
        *((f"machine: {name}", value) for name, value in p.machine.items()),
    ]
    return [(name, _words(value)) for name, value in facts]


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_words(item) for item in value)
    return str(value)
