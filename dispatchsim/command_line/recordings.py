"""The commands that show one run from within: a trace, the timeline, the step-through."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..scenario.errors import UserError
from ..scenario.quantities import DURATION
from .door import keeping, notes
from .options import Changes, MechanismName, ProfileName, ScenarioName, Settings
from .working import asked_of, check_folder, check_plot, save_plot

if TYPE_CHECKING:
    from ..calibration.profiles.cost_tables import CostSource
    from ..recording.recording import Recording
    from ..scenario.scenario import Scenario

TRACE_LENGTH = "20 ms"
TIMELINE_LENGTH = "2 ms"
STEPS_LENGTH = "1 ms"
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace", help="A .json file for what the first run did, for Perfetto or chrome://tracing."
    ),
]
TraceFrom = Annotated[
    str | None,
    typer.Option("--trace-from", help="When the trace begins, such as '500 ms'; behind warm-up."),
]
TraceLength = Annotated[
    str | None, typer.Option("--trace-length", help=f"How long it is; {TRACE_LENGTH} if absent.")
]
From = Annotated[
    str | None,
    typer.Option("--from", help="When the window begins, such as '500 ms'; behind warm-up."),
]


def check_trace(path: Path | None, begin: str | None, length: str | None) -> None:
    """Refuse, before anything is run, a trace that cannot be written.

    Raises
    ------
    UserError
        If the file's name does not end in .json, there is no such folder, or a window is given
        without a file.
    """
    if path is None:
        if begin is not None or length is not None:
            raise UserError("--trace-from, --trace-length: must be absent without --trace")
        return
    if path.suffix != ".json":
        raise UserError(f"--trace: must end in .json, got {path}")
    check_folder("--trace", path)


def save_trace(
    path: Path, scenario: Scenario, profile: CostSource, begin: str | None, length: str | None
) -> None:
    """Write what the first run of *scenario* did in the window to *path*, and say what to do."""
    names = ("--trace-from", "--trace-length")
    found = _recorded(scenario, profile, begin, length or TRACE_LENGTH, names)
    found.write_trace(path)
    notes().print(
        f"{path}: {len(found.spans)} spans; open it at https://ui.perfetto.dev", soft_wrap=True
    )


def timeline(
    scenario: ScenarioName,
    *,
    plot: Annotated[Path, typer.Option(help="A file for the picture: .png, .svg or .pdf.")],
    begin: From = None,
    length: Annotated[str, typer.Option(help="How long the window is.")] = TIMELINE_LENGTH,
    mechanism: MechanismName = None,
    profile: ProfileName = None,
    settings: Settings = None,
) -> None:
    """Draw what a server did for a while: system calls, interrupts, sleep, and its queues."""
    check_plot(plot)
    asked = asked_of(scenario, Changes(settings=settings, mechanism=mechanism, profile=profile))
    found = _recorded(asked.scenario, asked.profile, begin, length, ("--from", "--length"))
    save_plot(plot, found.timeline())
    begins, lasts = map(DURATION.format, (found.begin_ns, found.end_ns - found.begin_ns))
    notes().print(
        f"{plot}: {len(found.spans):,} spans in {lasts}, from {begins} on", soft_wrap=True
    )


def step(
    scenario: ScenarioName,
    *,
    output: Annotated[Path, typer.Option(help="A file for the page: .html.")],
    begin: From = None,
    length: Annotated[str, typer.Option(help="How long the window is.")] = STEPS_LENGTH,
    mechanism: MechanismName = None,
    profile: ProfileName = None,
    settings: Settings = None,
) -> None:
    """Make a page that goes through a run step by step: play, pause, back and forth."""
    if output.suffix != ".html":
        raise UserError(f"--output: must end in .html, got {output}")
    check_folder("--output", output)
    asked = asked_of(scenario, Changes(settings=settings, mechanism=mechanism, profile=profile))
    found = _recorded(asked.scenario, asked.profile, begin, length, ("--from", "--length"))
    page = found.steps()
    page.save(output)
    notes().print(f"{output}: {page.says}", soft_wrap=True)


def _recorded(
    scenario: Scenario,
    profile: CostSource,
    begin: str | None,
    length: str,
    options: tuple[str, str],
) -> Recording:
    """Return the recording of a window; say what was cut."""
    from ..recording.recording import record, window_ns

    begin_ns, length_ns = window_ns(scenario, begin, length, options)
    with keeping(None):
        found = record(scenario, profile, begin=begin_ns, length=length_ns)
    if found.end_ns < found.asked_end_ns:
        kept = DURATION.format(found.end_ns - found.begin_ns)
        notes().print(f"only the first {kept} of the window: it is full of events")
    return found
