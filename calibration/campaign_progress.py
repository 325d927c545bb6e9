"""A Rich progress bar for a campaign, and its summary in one sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from .campaign import CampaignProgress, CampaignSummary, ProgressCallback


@contextlib.contextmanager
def campaign_bar(console: Console | None = None) -> Iterator[ProgressCallback]:
    """Yield a callback for `run_campaign` that draws a bar with the time left."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]} left, {task.fields[rejected]} rejected"),
        TextColumn("{task.description}", markup=False),
    )
    # Redrawing by a thread of its own would disturb the run that is being measured.
    with Progress(*columns, console=console, auto_refresh=False) as bar:
        task = bar.add_task("starting", total=None, left="?", rejected=0)

        def show(progress: CampaignProgress) -> None:
            if progress.note:
                bar.console.print(f"{progress.label}: {progress.note}", markup=False)
            bar.update(
                task,
                description=progress.label,
                completed=progress.done,
                total=progress.total,
                left=duration_text(progress.seconds_left),
                rejected=progress.rejected,
            )
            bar.refresh()

        yield show


@contextlib.contextmanager
def building_bar(console: Console | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback (what is being built, steps done, steps in all) that draws a bar."""
    columns = (BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)

        def show(doing: str, done: int, total: int) -> None:
            bar.update(task, description=doing, completed=done, total=total, visible=True)

        yield show


def duration_text(seconds: float) -> str:
    """Return a duration as people say it.

    >>> duration_text(3700), duration_text(95), duration_text(8)
    ('1 h 01 min', '1 min 35 s', '8 s')
    """
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def summary_text(summary: CampaignSummary) -> str:
    """Return what a campaign did, one sentence and its notices."""
    state = "interrupted" if summary.interrupted else "finished"
    sentence = (
        f"{state} after {duration_text(summary.seconds)}: {summary.measured} measured, "
        f"{summary.skipped} already there, {summary.rejected} runs rejected, "
        f"{summary.failed} failed, {summary.given_up} given up"
    )
    return "\n".join([sentence, *summary.notices])
