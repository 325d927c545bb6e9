"""`dispatchsim validate papers`: the literature's claims, how often the simulator says the same."""

from __future__ import annotations

from pathlib import Path

from ..paper_study.scores import FAST, FULL, Setting, compile_for, score_paper
from ..scenario.errors import UserError
from ..scenario.near_names import nearest
from ..sim.engine.workers import workers_for
from ..sim.files.parallel import cpu_count
from ..sim.files.tables import rich_table
from ..validation.papers.pages import write_pages
from ..validation.papers.register import PAPERS
from ..validation.papers.tables import ablation_table, overall_table, short_claim_table
from .door import compiling, keeping, people, progress_bar


def validate_papers(
    names: list[str],
    output: Path,
    *,
    fast: bool,
    draws: int | None,
    ablation: bool | None,
    workers: int | None,
) -> None:
    """Score the papers *names* (none: all), write their pages to *output*, print the tables.

    *ablation* says whether rules are switched off one by one; None: unless it is to be fast.

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
        compile_for(papers, telling=compiling)
        with workers_for("auto", workers or cpu_count()) as executor:
            for paper in papers:
                with progress_bar(paper.name) as progress:
                    results.append(
                        score_paper(
                            paper,
                            setting,
                            kept=output / "runs.jsonl",
                            executor=executor,
                            progress=progress,
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
