"""The report as one page: no script, no other file, everything escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from .figures import figures, to_svg
from .report_tables import missing_table, score_tables, target_table

if TYPE_CHECKING:
    from .report import Report

_CAPTIONS = {
    "closed_throughput": "Closed loop: replies per second against idle connections. Points: "
    "median of the measured repeats with its 95% interval; lines and bands: forecast with its 95% "
    "interval.",
    "open_curves": "Open loop: CPU and median latency against offered rate. Points: measured with "
    "the 95% interval of the median; lines and bands: forecast.",
    "error_histogram": "Relative error of throughput over the held-out points where throughput is "
    "the server's and not the load's; dashed: ±10%.",
}


def render_html(report: Report) -> str:
    """Return the page of *report*."""
    loader = PackageLoader("dispatchsim.validation", "templates")
    environment = Environment(
        loader=loader,
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawn = [
        # Markup: matplotlib has escaped every text in its own SVG.
        {"svg": Markup(inline_svg(to_svg(figure, name))), "caption": _CAPTIONS[name]}
        for name, figure in figures(report.scores).items()
    ]
    return environment.get_template("report.html.jinja").render(
        targets=target_table(report.targets),
        figures=drawn,
        tables=score_tables(report.scores),
        missing=missing_table(report.missing) if report.missing else None,
        provenance=_facts(report),
        notices=report.provenance.notices,
        seeds=_seeds(report),
    )


def inline_svg(svg: str) -> str:
    """Return *svg* without what may only stand at the beginning of a file."""
    return svg[svg.index("<svg") :]


def _facts(report: Report) -> list[tuple[str, str]]:
    """Return the provenance as (name, text)."""
    p = report.provenance
    facts: list[tuple[str, Any]] = [
        ("report written", p.date),
        ("profile", f"{p.profile} ({p.profile_hash})"),
        ("measured", f"{p.measured_from} to {p.measured_to}"),
        ("measuring programs", p.measured_code),
        ("packet steering", p.steering),
        ("simulator", f"dispatchsim {p.version}, sources {p.code}, Python {p.python}"),
        ("draws of the costs", p.draws),
        ("seeds", f"at most {p.seeds_by_point_max} a point, of the measured repeats"),
        ("runs", f"{p.n_runs}, of which {p.n_rejected} were rejected"),
        ("rejected because of", p.rejected_by_reason or "nothing"),
        ("noise gate", p.noise_limits),
        *((f"machine: {name}", value) for name, value in p.machine.items()),
    ]
    return [(name, _words(value)) for name, value in facts]


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_words(item) for item in value)
    return str(value)


def _seeds(report: Report) -> list[tuple[str, str]]:
    return [
        (entry.measured.point.label, ", ".join(map(str, entry.forecast.seeds)))
        for entry in report.scores
    ]
