"""All figures of a report with what to say below them, by the names of their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from matplotlib.figure import Figure

from ..drawing.figures import figures, style
from ..overload.interrupt_load import FIGURE_CAPTION, flood_figure
from .hardware_section import HardwareSection
from .noise_free_figures import CAPTIONS as NOISE_FREE_CAPTIONS
from .noise_free_figures import noise_free_figures
from .noise_free_section import NoiseFreeSection
from .overload_section import CAPTIONS as OVERLOAD_CAPTIONS
from .overload_section import OverloadSection, overload_figures

if TYPE_CHECKING:
    from .report import Report

CAPTIONS = {
    "closed_throughput": "Closed loop: replies per second against idle connections. Points: "
    "median of the measured repeats with its 95% interval; lines and bands: forecast with its 95% "
    "interval.",
    "open_curves": "Open loop: CPU and median latency against offered rate. Points: measured with "
    "the 95% interval of the median; lines and bands: forecast.",
    "error_histogram": "Relative error of throughput over the held-out points where throughput is "
    "the server's and not the load's; dashed: ±10%.",
}


class DrawnFigure(NamedTuple):
    """A figure and its caption."""

    figure: Figure
    caption: str


def drawn_figures(report: Report) -> dict[str, DrawnFigure]:
    """Return the figures of all sections by name; of several machines, with the machine's."""
    sections = [
        *((s.name, len(report.hardware), hardware_figures(s)) for s in report.hardware),
        *((s.name, len(report.noise_free), section_figures(s)) for s in report.noise_free),
        *((s.name, len(report.overload), drawn_overload(s)) for s in report.overload),
    ]
    return {
        name if n_alike == 1 else f"{machine}_{name}": entry
        for machine, n_alike, drawn in sections
        for name, entry in drawn.items()
    }


def hardware_figures(section: HardwareSection) -> dict[str, DrawnFigure]:
    """Return the figures of a real machine."""
    return {
        name: DrawnFigure(figure, CAPTIONS[name])
        for name, figure in figures(section.scores).items()
    }


def drawn_overload(section: OverloadSection) -> dict[str, DrawnFigure]:
    """Return the figures of a machine's overload, and of its floods if there are any."""
    drawn = {
        name: DrawnFigure(figure, OVERLOAD_CAPTIONS[name])
        for name, figure in overload_figures(section.compared).items()
    }
    if section.floods:
        with style():
            drawn["flood_progress"] = DrawnFigure(flood_figure(section.floods), FIGURE_CAPTION)
    return drawn


def section_figures(section: NoiseFreeSection) -> dict[str, DrawnFigure]:
    """Return the figures of the target without noise."""
    return {
        f"noise_free_{name}": DrawnFigure(figure, NOISE_FREE_CAPTIONS[name])
        for name, figure in noise_free_figures(section.scores, section.ledgers).items()
    }
