"""A page for each paper, and one for all: no script, everything escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from ...sim.files.whole_files import write_whole
from ..drawing.figures import save_figures
from ..report.page import rendered
from .paper import Choice
from .plots import drawn_plots
from .result import PaperResult
from .tables import ablation_table, answer_table, claim_table, missed_table, overall_table

_ABOUT = (
    "Each paper's conditions were simulated on the machine that it was measured on, as far as it "
    "can be reconstructed: the proportions of costs are those of a machine of ours, scaled until "
    "the few figures hold that say how fast it was. The rest of what a paper claims is checked.",
    "No cost was fitted to what is checked. Every constant that is free was drawn from its range "
    "(25% either way where nothing better is known), all together, once for each draw, and each "
    "draw has arrivals of its own. What a paper leaves open of its servers and its load is a "
    "range, or a choice; choices made after first results are said with each paper, and "
    "claims that rest on them are called revised.",
)


def write_pages(results: Sequence[PaperResult], folder: Path) -> list[Path]:
    """Write the pages of *results*, scores.json and figures into *folder*; return the pages."""
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
            f"Simulated on {paper.machine}, {len(result.drawn)} draws. Figures show medians over "
            "the draws, and 5 to 95% of them shaded."
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
