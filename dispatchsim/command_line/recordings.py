"""The commands that show the events of one run: a trace, a timeline, a page of steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..scenario.errors import UserError
from ..scenario.quantities import DURATION
from .door import keeping, notes
from .help_page import RARE
from .options import Changes, ScenarioName, grouped
from .working import Asked, asked_of, check_folder, check_plot, note_profile, save_plot

if TYPE_CHECKING:
    from ..recording.recording import Recording

TRACE_LENGTH = "20 ms"
TIMELINE_LENGTH = "2 ms"
STEPS_LENGTH = "5 ms"
From = Annotated[
    str | None,
    typer.Option(
        "--from", help="Begin of the window, such as '500 ms'. Default: the end of the warm-up."
    ),
]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A trace of the first run."""

    trace: Annotated[
        Path | None,
        typer.Option(
            help="Write a trace of the first run to this .json file, for Perfetto or "
            "chrome://tracing."
        ),
    ] = None
    trace_from: Annotated[
        str | None,
        typer.Option(
            help="Begin of the trace, such as '500 ms'. Default: the end of the warm-up.",
            rich_help_panel=RARE,
        ),
    ] = None
    trace_length: Annotated[
        str | None,
        typer.Option(help=f"Length of the trace. Default: {TRACE_LENGTH}.", rich_help_panel=RARE),
    ] = None

    def check(self) -> None:
        """Refuse, before anything is run, a trace that cannot be written.

        Raises
        ------
        UserError
            If the file's name does not end in .json, there is no such folder, or a window is given
            without a file.
        """
        if self.trace is None:
            if self.trace_from is not None or self.trace_length is not None:
                raise UserError("--trace-from, --trace-length: must be absent without --trace")
            return
        if self.trace.suffix != ".json":
            raise UserError(f"--trace: must end in .json, got {self.trace}")
        check_folder("--trace", self.trace)

    def save(self, asked: Asked) -> None:
        """Write the trace, if it is asked for, and print how to open it."""
        if self.trace is None:
            return
        length = self.trace_length or TRACE_LENGTH
        found = _recorded(asked, self.trace_from, length, ("--trace-from", "--trace-length"))
        found.write_trace(self.trace)
        notes().print(
            f"{self.trace}: {len(found.spans)} spans; open it at https://ui.perfetto.dev",
            soft_wrap=True,
        )


@grouped
def timeline(
    scenario: ScenarioName,
    *,
    plot: Annotated[Path, typer.Option(help="File for the picture: .png, .svg or .pdf.")],
    begin: From = None,
    length: Annotated[str, typer.Option(help="Length of the window.")] = TIMELINE_LENGTH,
    changes: Changes,
) -> None:
    """Plot a server's calls, interrupts, sleep and queues.

    dispatchsim timeline poll_10k_idle --plot timeline.svg
    """
    check_plot(plot)
    found = _recorded(asked_of(scenario, changes), begin, length, ("--from", "--length"))
    save_plot(plot, found.timeline())
    begins, lasts = map(DURATION.format, (found.begin_ns, found.end_ns - found.begin_ns))
    notes().print(
        f"{plot}: {len(found.spans):,} spans in {lasts}, from {begins} on", soft_wrap=True
    )


@grouped
def step(
    scenario: ScenarioName,
    *,
    output: Annotated[Path, typer.Option(help="File for the page: .html.")] = Path("steps.html"),
    begin: From = None,
    length: Annotated[str, typer.Option(help="Length of the window.")] = STEPS_LENGTH,
    changes: Changes,
) -> None:
    """Write a page that replays a run step by step.

    dispatchsim step poll_10k_idle
    """
    if output.suffix != ".html":
        raise UserError(f"--output: must end in .html, got {output}")
    check_folder("--output", output)
    found = _recorded(asked_of(scenario, changes), begin, length, ("--from", "--length"))
    page = found.steps()
    page.save(output)
    notes().print(f"{output}: {page.says}", soft_wrap=True)


def _recorded(asked: Asked, begin: str | None, length: str, options: tuple[str, str]) -> Recording:
    """Return the recording of a window; print whether it was cut."""
    from ..recording.recording import record, window_ns

    begin_ns, length_ns = window_ns(asked.scenario, begin, length, options)
    note_profile(asked)
    with keeping(None):
        found = record(asked.scenario, asked.profile, begin=begin_ns, length=length_ns)
    if found.end_ns < found.asked_end_ns:
        kept = DURATION.format(found.end_ns - found.begin_ns)
        notes().print(f"only the first {kept} of the window: it has too many events")
    return found
