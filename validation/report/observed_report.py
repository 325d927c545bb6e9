"""The report on a profile against its owner's runs: a page, scores for programs, figures.

ObservedSection ─┬─► report.html
                 ├─► scores.json     "dispatchsim-scores/2", under "observed"
                 └─► figures/
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.text import Text

from ...sim.files.whole_files import write_whole
from ..drawing.figures import closed_throughput, open_curves, save_figures, style
from .observed_section import ObservedSection, error_at_equal_busy
from .observed_tables import observed_tables
from .page import facts_of, figures_as_svg, rendered
from .pictures import CAPTIONS, DrawnFigure
from .scores_json import FORMAT, plain, point_score
from .terminal import print_section

_TEXT = (
    "Every point below was measured by the server's owner, and forecast by the simulator from the "
    "profile. + means that the forecast is above the measurement."
)


@dataclass(frozen=True)
class ObservedReport:
    """What a validation found, and the files that hold it."""

    sections: list[ObservedSection]
    html_path: Path
    scores_path: Path


def write_observed(sections: Sequence[ObservedSection], output_dir: Path) -> ObservedReport:
    """Write figures, scores and, last, the page of *sections* into *output_dir*."""
    drawn = {
        f"{number}_{name}" if len(sections) > 1 else name: entry
        for number, section in enumerate(sections, start=1)
        for name, entry in observed_figures(section).items()
    }
    save_figures({name: entry.figure for name, entry in drawn.items()}, output_dir / "figures")
    report = ObservedReport(list(sections), output_dir / "report.html", output_dir / "scores.json")
    # What a tool did not see is NaN, which JSON does not know.
    content = {"format": FORMAT, "observed": [plain(_to_json(section)) for section in sections]}
    write_whole(report.scores_path, json.dumps(content, indent=1, allow_nan=False) + "\n")
    page = rendered(
        "report.html.jinja", sections=[_to_page(section) for section in sections], effects=None
    )
    write_whole(report.html_path, page)
    return report


def print_observed(report: ObservedReport, console: Console) -> None:
    """Print what was reached and every point, then where the report is."""
    for section in report.sections:
        print_section(console, section.name, section.provenance, observed_tables(section))
    for path in (report.html_path, report.scores_path):
        console.print(Text(str(path)), soft_wrap=True)


def observed_figures(section: ObservedSection) -> dict[str, DrawnFigure]:
    """Return capacity against idle connections by requests of a connection, and open loops."""
    drawn: dict[str, Figure] = {}
    opened = [s for s in section.scores if s.measured.point.loop == "open"]
    closed: dict[int, list[Any]] = {}
    for entry in section.scores:
        if entry.measured.point.loop == "closed":
            closed.setdefault(entry.measured.point.requests, []).append(entry)
    with style():
        for requests, scores in sorted(closed.items()):
            drawn[f"closed_throughput_{requests}"] = closed_throughput(scores)
        if opened:
            drawn["open_curves"] = open_curves(opened)
    return {
        name: DrawnFigure(
            figure,
            f"Requests a connection: {name.rpartition('_')[2]}. {CAPTIONS['closed_throughput']}"
            if name.startswith("closed")
            else CAPTIONS[name],
        )
        for name, figure in drawn.items()
    }


def _to_page(section: ObservedSection) -> dict[str, Any]:
    first, *tables = observed_tables(section)
    return {
        "title": section.name,
        "text": _TEXT,
        "notices": section.provenance.notices,
        "first": [first],
        "figures": figures_as_svg(section.name, observed_figures(section)),
        "tables": tables,
        "folded": [],
        "provenance": facts_of(section.provenance),
        "seeds": [],
    }


def _to_json(section: ObservedSection) -> dict[str, Any]:
    return {
        "name": section.name,
        "provenance": plain(section.provenance),
        "capacity": asdict(section.capacity),
        "points": [
            {**point_score(entry), "throughput_at_equal_cpu": error_at_equal_busy(entry)}
            for entry in section.scores
        ],
        "ranking": [
            {
                "aspect": pair.aspect,
                "faster": asdict(pair.faster.measured.point),
                "slower": asdict(pair.slower.measured.point),
                "right": pair.right,
            }
            for pair in section.pairs
        ],
    }
