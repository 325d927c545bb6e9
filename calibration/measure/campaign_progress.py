"""The progress of a campaign on a terminal or in a log, and its summary in one sentence.

A terminal shows a progress bar. A log gets a line at the start of each part of the work, and
another every minute.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column

from ...scenario.formats import duration_text
from .campaign import CampaignProgress, CampaignSummary, ProgressCallback

LINE_EVERY_S = 60.0
_KNOWN_FROM = 5
"""Finished runs from which on the time left is shown: the first takes longer than the others."""


class _Log:
    """Lines on a console that is not a terminal; on a terminal nothing."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._part = ""
        self._due_s = 0.0

    def say(self, part: str, text: str) -> None:
        """Print *text* if *part* has just begun, or if the last line is a minute old."""
        now_s = time.monotonic()
        if self._console.is_terminal or (part == self._part and now_s < self._due_s):
            return
        self._part, self._due_s = part, now_s + LINE_EVERY_S
        self._console.print(text, markup=False, soft_wrap=True)


@contextlib.contextmanager
def campaign_bar(console: Console | None = None) -> Iterator[ProgressCallback]:
    """Yield a callback for `run_campaign` that shows a bar with the time left."""
    columns = (
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]} left, {task.fields[rejected]} rejected"),
        # Too long a line is cut here and not in the numbers.
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
    )
    console = console or Console()
    log = _Log(console)
    off = not console.is_terminal
    # Redrawing in another thread would disturb the measured run.
    with Progress(*columns, console=console, auto_refresh=False, disable=off, expand=True) as bar:
        task = bar.add_task("starting", total=None, left="?", rejected=0)

        def show(progress: CampaignProgress) -> None:
            label = f"{progress.part}: {progress.label}"
            known = progress.done >= _KNOWN_FROM
            left = duration_text(progress.seconds_left) if known else "?"
            if progress.note:
                console.print(f"{label}: {progress.note}", markup=False, soft_wrap=True)
            done = (
                f"{progress.done} of {progress.total}, {left} left, {progress.rejected} rejected; "
            )
            # A recording has no steps.
            steps = done if progress.total else ""
            log.say(progress.part, f"{progress.part}: {steps}{progress.label}")
            bar.update(
                task,
                description=label,
                completed=progress.done,
                total=progress.total,
                left=left,
                rejected=progress.rejected,
            )
            bar.refresh()

        yield show


@contextlib.contextmanager
def building_bar(console: Console | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback (what is built, steps done, all steps) that shows a bar."""
    columns = (BarColumn(), TextColumn("{task.description}", markup=False))
    console = console or Console()
    log = _Log(console)
    off = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=off) as bar:
        task = bar.add_task("", total=None, visible=False)

        def show(doing: str, done: int, total: int) -> None:
            share = f": {done / total:.0%}" if done else ""
            log.say(doing, f"{doing}{share}")
            bar.update(task, description=doing, completed=done, total=total, visible=True)

        yield show


def summary_text(summary: CampaignSummary) -> str:
    """Return the result of a campaign in one sentence, and its notices."""
    state = "interrupted" if summary.interrupted else "finished"
    if summary.out_of_time:
        state = "out of time"
    sentence = (
        f"{state} after {duration_text(summary.seconds)}: {summary.measured} measured, "
        f"{summary.skipped} already on disk, {summary.rejected} runs rejected, "
        f"{summary.failed} failed, {summary.given_up} given up"
    )
    if summary.reasons:
        reasons = ", ".join(f"{name} {n}" for name, n in summary.reasons.most_common())
        sentence += f"\nrejected because of: {reasons}"
    return "\n".join([sentence, *summary.notices])
