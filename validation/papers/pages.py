"""The pages of papers: tables, charts with the paper's axes, a page for each and an index.

    medians over samples   ─► line, 5 to 95% shaded
    and, over time         ─► bars of the deviation, minimum and maximum of the intervals of a run

All text of a page is escaped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from ...sim.figures.tally import REPLY_INTERVAL_NS
from ...sim.files.tables import Column, Table
from ...sim.files.whole_files import write_whole
from ...sim.state.units import SECOND_NS
from ..drawing.figures import SMALL_POINTS, save_figures, style
from ..drawing.looks import Look, nth_look
from ..report.page import rendered
from .paper import Choice, Plot
from .quantities import OVER_TIME
from .scoring import REPRODUCED, Answer, ClaimScore, PaperResult

_SIZE = (4.8, 3.5)
"""In inches; a telephone shows it at three quarters."""
_HEADROOM = 1.06
"""Top of the axis over the highest value, so that a curve does not touch the frame."""
_TICKS = 7
_LONG_LABEL = 15
"""In characters; longer labels do not fit three to a row."""


def drawn_plots(result: PaperResult) -> dict[str, Figure]:
    """Return the charts of *result* by file name: medians over the samples."""
    names = [f"{result.paper.name}_{number}" for number in range(1, len(result.paper.plots) + 1)]
    return {
        name: _drawn(result, plot) for name, plot in zip(names, result.paper.plots, strict=True)
    }


def _drawn(result: PaperResult, plot: Plot) -> Figure:
    condition = next(c for c in result.paper.all_conditions if c.name == plot.condition)
    servers = plot.servers or tuple(condition.servers)
    with style():
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.subplots()
        for number, server in enumerate(servers):
            look = nth_look(number)
            _draw_band(axes, result, plot, server, look)
            if plot.over_time:
                _draw_over_time(axes, result, plot, server, look)
        axes.set(xlabel=plot.x_label, ylabel=plot.y_label, title=plot.title)
        axes.xaxis.set_major_locator(MaxNLocator(_TICKS, steps=(1, 2, 5, 10)))
        if plot.logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_ylim(0, _HEADROOM * axes.dataLim.ymax)
        entries, labels = axes.get_legend_handles_labels()
        n_columns = 2 if max(map(len, labels)) > _LONG_LABEL else 3
        figure.legend(
            entries, labels, loc="outside lower center", ncols=n_columns, fontsize=SMALL_POINTS
        )
    return figure


def _draw_band(axes: Axes, result: PaperResult, plot: Plot, server: str, look: Look) -> None:
    at, low, middle, high = result.band(plot.condition, server, plot.figure)
    axes.plot(
        at,
        middle * plot.scale,
        color=look.colour,
        marker=look.marker,
        linestyle=look.dashes,
        markersize=4,
        label=server,
    )
    axes.fill_between(at, low * plot.scale, high * plot.scale, color=look.colour, alpha=0.15, lw=0)


def _draw_over_time(axes: Axes, result: PaperResult, plot: Plot, server: str, look: Look) -> None:
    """Draw the spread of the reply rate over the intervals of a run."""
    at, _, mean, _ = result.band(plot.condition, server, plot.figure)
    least, deviation, most = (
        result.band(plot.condition, server, figure)[2] * plot.scale for figure in OVER_TIME
    )
    axes.errorbar(
        at,
        mean * plot.scale,
        yerr=deviation,
        color=look.colour,
        linestyle="none",
        capsize=3,
        label="deviation",
    )
    for values, marker, name in ((most, "v", "maximum"), (least, "^", "minimum")):
        axes.plot(
            at,
            values,
            color="0.45",
            marker=marker,
            markersize=4,
            markerfacecolor="none",
            linestyle=":",
            linewidth=0.8,
            label=f"{name} of {REPLY_INTERVAL_NS / SECOND_NS:g} s",
        )


GOAL = 0.9
"""Target share of reproduced claims, over results and counters together."""
DRAWS_MIN = 10
"""Least number of samples for a verdict."""
_SCORED = ("V", "M")


def overall_table(results: Sequence[PaperResult]) -> Table:
    """Return the reproduced claims of each paper, and of all papers in the register."""
    rows = []
    for result in results:
        listed, beyond = _registered([result]), _beyond(result)
        if listed:
            rows.append(_overall_row(result.paper.name, [result], listed))
        if beyond:
            rows.append(_overall_row(f"{result.paper.name}, not in the register", [result], beyond))
    with_listed = [result for result in results if _registered([result])]
    if len(with_listed) > 1:
        rows.append(_overall_row("all in the register", with_listed, _registered(with_listed)))
    return Table.of_cells(
        "Claims reproduced",
        ("paper", "results (V)", "counters (M)", "share", "revised", "verdict"),
        rows,
        f"A claim is reproduced if it holds in at least {REPRODUCED:.0%} of the samples of the "
        f"free constants; at least {DRAWS_MIN} samples are needed. Target: {GOAL:.0%} of the "
        "claims. Revised: reproduced claims that depend on a choice made after first results (each "
        "paper's page names them and the choices). The register listed claims before any run; "
        "later claims are counted separately.",
    )


def _registered(results: Sequence[PaperResult]) -> list[ClaimScore]:
    return [s for r in results for s in r.scores if s.claim.name not in r.paper.beyond]


def _beyond(result: PaperResult) -> list[ClaimScore]:
    return [score for score in result.scores if score.claim.name in result.paper.beyond]


def _overall_row(
    name: str, results: Sequence[PaperResult], scores: Sequence[ClaimScore]
) -> tuple[str, ...]:
    """Return the row of *scores*, which belong to *results*."""
    revised = {claim for result in results for claim in result.paper.revised}

    def count(kind: str) -> str:
        own = [each for each in scores if each.claim.kind == kind]
        return f"{sum(each.is_reproduced for each in own)}/{len(own)}" if own else "-"

    own = [each for each in scores if each.claim.kind in _SCORED]
    share = sum(each.is_reproduced for each in own) / max(1, len(own))
    n_revised = sum(each.is_reproduced and each.claim.name in revised for each in own)
    enough = min(len(result.drawn) for result in results) >= DRAWS_MIN
    verdict = _verdict(share >= GOAL) if enough else "too few samples"
    return (name, count("V"), count("M"), f"{share:.0%}", str(n_revised), verdict)


def claim_table(result: PaperResult) -> Table:
    """Return all claims of a paper, failed ones first."""

    def holds(each: ClaimScore) -> str:
        revised = " revised" if each.claim.name in result.paper.revised else ""
        return f"{each.share:.0%}{revised}"

    def words(heading: str, name: str) -> Column[ClaimScore]:
        return Column(heading, lambda each: getattr(each.claim, name), words=True)

    columns = [
        _CLAIM,
        *(words(name, name) for name in ("kind", "condition")),
        words("metric", "quantity"),
        words("statement", "says"),
        words("tolerance", "band"),
        words("source", "source"),
        Column("holds", holds),
        _VERDICT,
    ]
    note = f"holds: share of {len(result.drawn)} samples. V: a measured result, M: a counter."
    return Table.of(f"Claims of {result.paper.title}", _missed_first(result), columns, note)


def short_claim_table(result: PaperResult) -> Table:
    """Return claims, shares and verdicts alone, for a terminal."""
    columns = [
        _CLAIM,
        Column[ClaimScore]("statement", lambda each: _cut(each.claim.says), words=True),
        Column[ClaimScore]("holds", lambda each: f"{each.share:.0%}"),
        _VERDICT,
    ]
    title = f"{result.paper.title}, {len(result.drawn)} samples"
    return Table.of(title, _missed_first(result), columns)


_CLAIM = Column[ClaimScore]("claim", lambda each: each.claim.name, words=True)
_VERDICT = Column[ClaimScore]("verdict", lambda each: _verdict(each.is_reproduced))


def _missed_first(result: PaperResult) -> list[ClaimScore]:
    return sorted(result.scores, key=lambda each: each.is_reproduced)


def missed_table(result: PaperResult) -> Table | None:
    """Return the failed claims: expected and found values, and reasons."""
    rows = []
    for each in result.scores:
        if each.is_reproduced:
            continue
        first = each.claim.name
        worst = min(each.sides, key=lambda side: side.share)
        for side in each.sides:
            # Each may hold often, but all together seldom: then the worst is shown.
            if side.share < REPRODUCED or side is worst:
                found = f"{_number(side.left)} against {_number(side.right)}"
                rows.append((first, str(side.comparison), found, f"{side.share:.0%}"))
                first = ""
        decisive = ", ".join(f"{name} ({r:+.2f})" for name, r in each.decisive)
        if decisive:
            rows.append(("", f"decided by: {decisive}", "", ""))
        if why := result.paper.why_not.get(each.claim.name):
            rows.append(("", f"reason: {why}", "", ""))
    if not rows:
        return None
    return Table.of_cells(
        "Claims not reproduced, and reasons",
        ("claim", "expected", "found", "holds"),
        rows,
        "Found: medians over the samples, at the tightest point. Decided by: constants whose rank "
        "correlates with the margin of the claim more than by chance, with the rank correlation.",
        n_words=3,
    )


def answer_table(answer: Answer) -> Table:
    """Return the hypotheses of a question, and how often each holds."""
    rows = [
        (h.name, h.says, f"{share:.0%}", "supported" if share >= REPRODUCED else "not supported")
        for h, share in zip(answer.question.hypotheses, answer.shares, strict=True)
    ]
    headings = ("hypothesis", "expected result", "holds", "verdict")
    return Table.of_cells(answer.question.asks, headings, rows, n_words=2)


def ablation_table(results: Sequence[PaperResult]) -> Table:
    """Return the claims that fail without each rule."""
    rules = list(dict.fromkeys(each.rule for result in results for each in result.ablated))
    rows = []
    for rule in rules:
        names = [
            name
            for result in results
            for each in result.ablated
            if each.rule == rule
            for name in each.fails
        ]
        rows.append((rule, ", ".join(names) or "none", str(len(names)), _verdict(bool(names))))
    headings = ("rule", "claims that fail", "count", "verdict")
    note = "Claims that hold with all rules and fail without this one."
    return Table.of_cells("Rules switched off", headings, rows, note, n_words=2)


def _verdict(is_good: bool) -> str:
    return "reached" if is_good else "missed"


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "no replies"


def _cut(text: str, width: int = 64) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


_ABOUT = (
    "Each paper's conditions were simulated on a reconstruction of its machine: the proportions of "
    "costs come from a measured machine, scaled until they match the few published values of "
    "speed. All other claims of a paper are checked.",
    "No cost was fitted to a checked claim. Each sample takes every free constant at random from "
    "its range (±25% where nothing better is known) and has its own arrivals. Unstated settings of "
    "servers and load are ranges or choices. Each paper's page lists the choices made after first "
    "results; claims that depend on them are called revised.",
)


def write_pages(results: Sequence[PaperResult], folder: Path) -> list[Path]:
    """Write the pages of *results*, scores.json and charts into *folder*; return the pages."""
    pages = []
    for result in results:
        page = folder / f"{result.paper.name}.html"
        drawn = drawn_plots(result)
        write_whole(page, _page(result, drawn))
        save_figures(drawn, folder / "figures")
        pages.append(page)
    content = [result.to_dict() for result in results]
    write_whole(folder / "scores.json", json.dumps(content, indent=1) + "\n")
    index = folder / "index.html"
    write_whole(index, _index(results))
    return [index, *pages]


def _index(results: Sequence[PaperResult]) -> str:
    return rendered(
        "papers.html.jinja",
        title="The papers, reproduced",
        text=_ABOUT,
        links=[(f"{r.paper.name}.html", r.paper.title) for r in results],
        first=[overall_table(results)],
        figures={},
        tables=[ablation_table(results)] if any(r.ablated for r in results) else [],
        assumed=[],
        omitted=[],
    )


def _page(result: PaperResult, drawn: Mapping[str, Figure]) -> str:
    paper = result.paper
    missed = missed_table(result)
    unstated = [
        f"{u.key}: one of {', '.join(map(str, u.options))} ({u.why})"
        if isinstance(u, Choice)
        else f"{u.key}: from {u.low:g} to {u.high:g} {u.unit}".rstrip() + f" ({u.why})"
        for u in paper.unstated
    ]
    return rendered(
        "papers.html.jinja",
        title=paper.title,
        text=[
            f"Simulated on {paper.machine}, {len(result.drawn)} samples. Charts show medians over "
            "the samples; the band holds 5 to 95% of them."
        ],
        links=[("index.html", "All papers")],
        first=[overall_table([result]), *([missed] if missed else [])],
        figures=drawn,
        tables=[
            claim_table(result),
            *map(answer_table, result.answers),
            *([ablation_table([result])] if result.ablated else []),
        ],
        assumed=[*paper.assumed, *unstated],
        omitted=[(each.name, each.why) for each in paper.omitted],
    )
