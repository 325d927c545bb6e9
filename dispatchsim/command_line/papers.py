"""`dispatchsim validate papers`: how often the simulator agrees with claims of the literature."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from .. import calibration, scenario
from ..calibration.running.compiling import Side, compile_engines
from ..scenario.errors import UserError, nearest
from ..sim.engine.workers import workers_for
from ..sim.files.tables import rich_table
from ..validation.forecast.kept_runs import KeptRuns
from ..validation.forecast.provenance import file_hash, source_hash
from ..validation.papers.pages import ablation_table, overall_table, short_claim_table, write_pages
from ..validation.papers.paper import Paper
from ..validation.papers.runs import PAPERS, Points, central_profile, first_scenarios
from ..validation.papers.scoring import FAST, FULL, Setting, score_paper
from .door import compiling, keeping, people, progress_bar


def score_papers(
    names: list[str],
    output: Path,
    *,
    fast: bool,
    draws: int | None,
    ablation: bool | None,
    workers: int,
) -> None:
    """Score the papers *names* (none: all), write their pages to *output*, print the tables.

    With *ablation* rules are switched off one by one; None: unless *fast*.

    Raises
    ------
    UserError
        If there is no paper of a name.
    """
    for name in names:
        if name not in PAPERS:
            known = ", ".join(PAPERS)
            raise UserError(f'--paper: must be one of {known}{nearest(name, PAPERS)}, got "{name}"')
    papers = [PAPERS[name] for name in names or PAPERS]
    setting = FAST if fast else FULL
    if draws is not None:
        setting = Setting(draws, setting.few, setting.ablation_draws)
    if ablation is not None:
        setting = setting._replace(ablation_draws=FULL.ablation_draws if ablation else 0)
    results = []
    with keeping(output):
        kept = KeptRuns(output / "runs.jsonl", _code(), to_json=_to_json, of_json=_of_json)
        _compile_for(papers)
        with workers_for("auto", workers) as executor:
            for paper in papers:
                with progress_bar(paper.name) as progress:
                    results.append(
                        score_paper(
                            paper,
                            setting,
                            executor=executor,
                            progress=progress,
                            kept=kept,
                        )
                    )
        pages = write_pages(results, output)
    console = people()
    for result in results:
        console.print(rich_table(short_claim_table(result)))
        console.print()
    console.print(rich_table(overall_table(results)))
    if any(result.ablated for result in results):
        console.print(rich_table(ablation_table(results)))
    console.print(str(pages[0]), markup=False, soft_wrap=True)


def _compile_for(papers: Sequence[Paper]) -> None:
    """Compile the engines that the runs of *papers* need, once."""
    for paper in papers:
        sides: dict[Side, set[str]] = {}
        for first in first_scenarios(paper):
            sides.setdefault(Side.of(first), set()).add(first.server.mechanism)
        profile = central_profile(paper.machine)
        for side, names in sides.items():
            compile_engines(sorted(names), profile, side=side, telling=compiling)


def _code() -> str:
    """Return what decides a run besides its task: the sources, and the files that these read."""
    files = sorted(
        path for package in (calibration, scenario) for path in _folder(package).rglob("*.toml")
    )
    return " ".join([source_hash(), *map(file_hash, files)])


def _folder(package: ModuleType) -> Path:
    return Path(str(package.__file__)).parent


def _to_json(points: Points) -> list[Any]:
    return list(points.items())


def _of_json(content: list[Any]) -> Points:
    return {(condition, server, float(x)): figures for (condition, server, x), figures in content}
