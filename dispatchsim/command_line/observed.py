"""What commands on observed runs have in common: which runs, and what their owner knows besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..calibration.running.preparation import check_mechanisms
from ..scenario.errors import UserError

if TYPE_CHECKING:
    from ..calibration.observed.observed_run import Habits, ObservedRun
    from ..calibration.profiles.cost_profile import Profile


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the owner of a server says of it; None: nothing. See `Habits`."""

    mechanism: Annotated[
        str | None, typer.Option(help="What the server waits with, where runs do not say.")
    ] = None
    accept_limit: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Connections it accepts for one notice, 0 for all there are, where runs do not "
            "say.",
        ),
    ] = None
    reads_after_accept: Annotated[
        bool | None,
        typer.Option(
            "--reads-after-accept/--waits-after-accept",
            help="Whether it reads from a new connection before it waits, where runs do not say.",
        ),
    ] = None
    server_workers: Annotated[
        int | None, typer.Option(min=1, help="Its event loops, where runs do not say.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class OfRuns:
    """Which observed runs are taken, and what their owner knows besides."""

    told: Told
    server: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only runs of servers whose name or command holds TEXT."),
    ] = None
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Take runs of another machine than the profile's, too.")
    ] = False


def observed_runs(paths: Sequence[Path], server: str | None) -> tuple[list[ObservedRun], list[str]]:
    """Return the runs in *paths* of servers like *server*, and what to tell the user of them.

    Raises
    ------
    DataError
        If there are none, or a file of them is none of ours, or broken.
    """
    from ..calibration.observed.run_files import of_servers_like, read_run_files

    loaded = read_run_files(paths)
    return of_servers_like(loaded.rows, server), loaded.notices


def habits_told(runs: Sequence[ObservedRun], told: Told) -> tuple[Habits, list[str]]:
    """Return what servers do of which *runs* do not say it, and what of it is taken for granted.

    Raises
    ------
    UserError
        If nobody says what a server waits with, or it is no mechanism that is known.
    """
    from ..calibration.observed.observed_run import Habits, ObservedServer, habits_of

    if told.mechanism is not None:
        check_mechanisms([told.mechanism], "--mechanism")
    else:
        silent = [run for run in runs if run.server.mechanism is None]
        if silent:
            first = silent[0]
            raise UserError(
                f"--mechanism: must be given, as {len(silent)} of {len(runs)} runs do not say what "
                f"their server waits with (the first is of {first.source.file or first.server.name}"
                f"{' ' + first.source.date if first.source.date else ''})"
            )
    for name in dict.fromkeys(run.server.mechanism for run in runs):
        if name is not None:
            check_mechanisms([name], "server.mechanism")
    notes = []
    for option, given, name, value in (
        ("--accept-limit", told.accept_limit, "accept_limit", "0, which is all there are"),
        ("--reads-after-accept", told.reads_after_accept, "reads_after_accept", "no"),
        ("--server-workers", told.server_workers, "workers", "1"),
    ):
        # Who accepts for others does not read.
        asked = [
            run for run in runs if name != "reads_after_accept" or run.server.share != "handed over"
        ]
        if given is None and any(getattr(run.server, name) is None for run in asked):
            notes.append(f"{option}: neither runs nor you say it, so it is taken to be {value}")
    said = ObservedServer(
        mechanism=told.mechanism,
        accept_limit=told.accept_limit,
        reads_after_accept=told.reads_after_accept,
        workers=told.server_workers,
    )
    habits = habits_of(said, Habits(mechanism=""))
    if any(habits_of(run.server, habits).workers > 1 and run.server.share is None for run in runs):
        notes.append(
            "runs do not say what the server's workers share, so it is taken to be one accept "
            "queue (`measure --share` says it)"
        )
    return habits, notes


def profile_of_runs(runs: Sequence[ObservedRun]) -> Profile:
    """Return the shipped profile of the machine that *runs* were made on.

    Raises
    ------
    UserError
        If they do not say which, or there is no profile of it.
    """
    from ..calibration.profiles.cost_profile import shipped

    machines = sorted({run.source.machine for run in runs} - {""})
    if len(machines) != 1:
        many = f"of {len(machines)} machines ({', '.join(machines)})"
        raise UserError(
            f"--profile: must be given, as the runs are {many}"
            if machines
            else "--profile: must be given, as the runs do not say on which machine they were made"
        )
    for profile in shipped().values():
        if profile.machine.get("id") == machines[0]:
            return profile
    raise UserError(
        f"--profile: must be given, as no shipped profile is of {machines[0]}, where the runs were "
        "made (`dispatchsim measure` and `calibrate FOLDER` make one)"
    )
