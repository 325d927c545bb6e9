"""Parts of the commands on observed runs: their selection, options for gaps in them, tables."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..calibration.running.preparation import check_mechanisms
from ..scenario.errors import UserError
from ..scenario.formats import rate_text, share_text, time_text
from ..sim.files.tables import Table
from .help_page import RARE

if TYPE_CHECKING:
    from ..calibration.observed.observed_run import Habits, ObservedRun
    from ..calibration.profiles.cost_profile import Profile


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the owner of a server gives where runs lack it. See `Habits`."""

    mechanism: Annotated[
        str | None,
        typer.Option(help="Dispatch mechanism of the server, for runs that do not record it."),
    ] = None
    accept_limit: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Connections that the server accepts per event (0: all that wait), for runs that "
            "do not record it.",
            rich_help_panel=RARE,
        ),
    ] = None
    reads_after_accept: Annotated[
        bool | None,
        typer.Option(
            "--reads-after-accept/--waits-after-accept",
            help="Whether the server reads from a new connection before it waits, for runs that do "
            "not record it.",
            rich_help_panel=RARE,
        ),
    ] = None
    server_workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of event loops of the server, for runs that do not record it.",
            rich_help_panel=RARE,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class OfRuns:
    """Which observed runs are taken, and what they lack."""

    told: Told
    server: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Take only runs of servers with this text in name or command."
        ),
    ] = None
    anyway: Annotated[bool, typer.Option("--anyway", help="Use runs of other machines, too.")] = (
        False
    )


def observed_runs(paths: Sequence[Path], server: str | None) -> tuple[list[ObservedRun], list[str]]:
    """Return the runs in *paths* of servers like *server*, and notes about them.

    Raises
    ------
    DataError
        If there are none, or if a file has another format or is broken.
    """
    from ..calibration.observed.run_files import of_servers_like, read_run_files

    loaded = read_run_files(paths)
    return of_servers_like(loaded.rows, server), loaded.notices


def habits_told(runs: Sequence[ObservedRun], told: Told) -> tuple[Habits, list[str]]:
    """Return the habits of servers that *runs* do not record, and notes on assumed ones.

    Raises
    ------
    UserError
        If neither runs nor options give the mechanism, or it is unknown.
    """
    from ..calibration.observed.observed_run import Habits, ObservedServer, habits_of

    mechanism = told.mechanism
    if mechanism is not None:
        (mechanism,) = check_mechanisms([mechanism], "--mechanism")
    else:
        silent = [run for run in runs if run.server.mechanism is None]
        if silent:
            first = silent[0]
            raise UserError(
                f"--mechanism: must be given, as {len(silent)} of {len(runs)} runs lack it "
                f"(the first is of {first.source.file or first.server.name}"
                f"{' ' + first.source.date if first.source.date else ''})"
            )
    for name in dict.fromkeys(run.server.mechanism for run in runs):
        if name is not None:
            check_mechanisms([name], "server.mechanism")
    notes = []
    for option, given, name, value in (
        ("--accept-limit", told.accept_limit, "accept_limit", "0 (all that wait)"),
        ("--reads-after-accept", told.reads_after_accept, "reads_after_accept", "no"),
        ("--server-workers", told.server_workers, "workers", "1"),
    ):
        # A thread that accepts for others does not read.
        asked = [
            run for run in runs if name != "reads_after_accept" or run.server.share != "handed over"
        ]
        if given is None and any(getattr(run.server, name) is None for run in asked):
            notes.append(f"{option}: {value} is assumed, as the runs do not record it")
    said = ObservedServer(
        mechanism=mechanism,
        accept_limit=told.accept_limit,
        reads_after_accept=told.reads_after_accept,
        workers=told.server_workers,
    )
    habits = habits_of(said, Habits(mechanism=""))
    if any(habits_of(run.server, habits).workers > 1 and run.server.share is None for run in runs):
        notes.append(
            "one accept queue for all workers is assumed, as the runs do not record what workers "
            "share (`measure server --share` records it)"
        )
    return habits, notes


def profile_of_runs(runs: Sequence[ObservedRun]) -> Profile:
    """Return the shipped profile of the machine that *runs* were made on.

    Raises
    ------
    UserError
        If they do not record it, or there is no profile of it.
    """
    from ..calibration.profiles.cost_profile import shipped

    machines = sorted({run.source.machine for run in runs} - {""})
    if len(machines) != 1:
        many = f"of {len(machines)} machines ({', '.join(machines)})"
        raise UserError(
            f"--profile: must be given, as the runs are {many}"
            if machines
            else "--profile: must be given, as the runs do not record their machine"
        )
    # Ids of older profiles lack the number of the CPU's model.
    for name in (machines[0], re.sub(r"-model\d+", "", machines[0])):
        for profile in shipped().values():
            if profile.machine.get("id") == name:
                return profile
    raise UserError(
        f"--profile: must be given, as no shipped profile is of {machines[0]}, the runs' machine "
        "(`dispatchsim measure machine` and `dispatchsim calibrate machine` make one)"
    )


def runs_table(runs: Sequence[ObservedRun]) -> Table:
    """Return a row for each load: rate, spread of repeats, latencies, CPU of server and machine.

    ± is half of the 95% interval of the mean, by Student's t.
    """
    groups: dict[str, list[ObservedRun]] = {}
    for run in runs:
        groups.setdefault(_load_text(run), []).append(run)
    headings = (
        "load",
        "runs",
        "rate",
        "spread",
        "±",
        "errors",
        "p50",
        "p99",
        "server CPU",
        "all CPU",
    )
    rows = [tuple(_row(label, group)) for label, group in groups.items()]
    return Table.of_cells("", headings, rows)


def _load_text(run: ObservedRun) -> str:
    load = run.load
    who = rate_text(load.rate_per_s or 0.0) if load.loop == "open" else f"{load.users} users"
    idle = f", {load.idle} idle" if load.idle else ""
    tool = "" if run.source.tool == "dispatchsim" else f" by {run.source.tool}"
    return f"{who}, {load.requests or 'all'} requests{idle}{tool}"


def _row(label: str, group: Sequence[ObservedRun]) -> list[str]:
    from ..calibration.records.precision import half_width

    good = [run for run in group if run.accepted]
    shown = [label, f"{len(good)} of {len(group)}"]
    if not good:
        return [*shown, *["none"] * 8]
    rates = [run.throughput_per_s for run in good]
    middle = statistics.median(rates)
    spread = (max(rates) - min(rates)) / middle if middle else 0.0

    def of(value: Callable[[ObservedRun], float | None], text: Callable[[float], str]) -> str:
        known = [found for run in good if (found := value(run)) is not None]
        return text(statistics.median(known)) if known else "unknown"

    def quantile(share: str) -> Callable[[ObservedRun], float | None]:
        return lambda run: run.latency_ns.quantiles.get(share) if run.latency_ns else None

    return [
        *shown,
        rate_text(middle),
        share_text(spread) if len(rates) > 1 else "unknown",
        share_text(half_width(rates)) if len(rates) > 1 else "unknown",
        f"{sum(sum(run.errors.values()) for run in good):,}",
        of(quantile("0.5"), time_text),
        of(quantile("0.99"), time_text),
        of(
            _server_share,
            share_text,
        ),
        of(lambda run: run.busy_share, share_text),
    ]


def _server_share(run: ObservedRun) -> float | None:
    return run.process_ns / run.window_ns if run.process_ns else None


def recognised_sentences(run: ObservedRun | None) -> list[str]:
    """Return sentences: the server's habits, the cost of counting, and options for gaps."""
    if run is None:
        return ["system calls were not counted: give the server's habits (--mechanism ...)"]
    server = run.server
    seen = [
        f"waits with {server.mechanism}" if server.mechanism else "",
        _accepts(server.accept_limit),
        {True: "reads from it before it waits again", False: "waits again before it reads"}.get(
            cast("bool", server.reads_after_accept), ""
        ),
        {True: "closes before its clients do", False: "leaves closing to its clients"}.get(
            cast("bool", server.closes_first), ""
        ),
        f"{server.workers} threads serve" if (server.workers or 0) > 1 else "",
        "another thread accepts for those that serve" if server.share == "handed over" else "",
    ]
    per_request = sorted(run.calls.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{n / run.replied:.2g} {name}" for name, n in per_request[:6])
    found = [
        f"recognised: {', '.join(filter(None, seen)) or 'nothing'}",
        f"system calls of a request (one connection in two requests): {shown}",
        f"counted by {run.counted_by} in a separate run, {run.slow_down or 0:.1f} times as slow",
    ]
    return found + [f"not detected: {_with_option(doubt)}" for doubt in run.doubts]


def _with_option(doubt: str) -> str:
    """Return *doubt* with the option that resolves it."""
    for field, option in _OPTIONS.items():
        doubt = doubt.replace(f"({field})", f"(option {option})")
    return doubt


_OPTIONS = {"server.mechanism": "--mechanism", "server.accept_limit": "--accept-limit"}


def _accepts(limit: int | None) -> str:
    if limit is None:
        return ""
    return f"accepts {limit} at a time" if limit else "accepts until there is none"
