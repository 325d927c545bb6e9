"""Files and folders of observed runs: read them, and group them by server and machine.

FILE.jsonl ──────────┐            ┌─ one server: name, command
FOLDER/runs.jsonl ───┴─► runs ──► ┤
                                  └─ the machine of a profile
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..fit.medians import FitError
from ..profiles.cost_profile import Profile
from ..records.measured_runs import DataError, Loaded
from .observed_run import ObservedRun, read_observed

RUNS_FILE = "runs.jsonl"
"""The timed runs in a folder."""


def read_run_files(paths: Iterable[Path]) -> Loaded[ObservedRun]:
    """Return the runs in *paths*, files or folders, with notices for the user.

    Raises
    ------
    DataError
        If a file is missing or holds no runs, or a line is not a run.
    """
    found: Loaded[ObservedRun] = Loaded()
    for path in dict.fromkeys(paths):
        file = path / RUNS_FILE if path.is_dir() else path
        if not file.is_file():
            what = f"folder with {RUNS_FILE}" if path.is_dir() else "file or folder of runs"
            raise DataError(f"{path}: must be a {what}, as `measure server` and `import` write")
        _check_is_ours(file)
        own = read_observed(file)
        if not own.rows:
            raise DataError(f"{file}: must hold at least one whole run, got none")
        found.rows.extend(own.rows)
        found.notices.extend(own.notices)
    return found


def _check_is_ours(file: Path) -> None:
    """Refuse the output of another tool or command, and name the command that reads it."""
    with file.open("rb") as text:
        first = text.read(4096).lstrip()
    if first and not first.startswith(b"{"):
        raise DataError(
            f"{file}: must be a file of observed runs (a JSON object a line); `dispatchsim import` "
            "makes one from the output of other tools"
        )
    expected = ObservedRun.model_fields["format"].default
    line, is_whole, _ = first.partition(b"\n")
    if is_whole and expected.partition("/")[0].encode() not in line:
        raise DataError(
            f"{file} line 1: is no run of `dispatchsim measure server` or `dispatchsim import` "
            f'(format must be "{expected}")'
        )


def server_label(run: ObservedRun) -> str:
    """Return a label for the server of *run*."""
    return run.server.command or run.server.name or "a server without a name"


def by_server(runs: Sequence[ObservedRun]) -> dict[str, list[ObservedRun]]:
    """Return runs by the server's label: the same program started differently is another server."""
    groups: dict[str, list[ObservedRun]] = {}
    for run in runs:
        groups.setdefault(server_label(run), []).append(run)
    return groups


def of_servers_like(runs: Sequence[ObservedRun], text: str | None) -> list[ObservedRun]:
    """Return the runs of servers whose label holds *text*; without *text*, all runs.

    Raises
    ------
    DataError
        If there are none.
    """
    if text is None:
        return list(runs)
    groups = by_server(runs)
    found = [run for label, own in groups.items() if text in label for run in own]
    if not found:
        raise DataError(f'--server: must be a part of {_listed(list(groups))}, got "{text}"')
    return found


def check_one_server(runs: Sequence[ObservedRun]) -> str:
    """Return the label of the only server in *runs*.

    Raises
    ------
    DataError
        If there are several.
    """
    groups = by_server(runs)
    if len(groups) > 1:
        raise DataError(
            f"runs must be of one server, got {len(groups)}: {_listed(list(groups))}; --server "
            "TEXT selects servers whose name or command holds TEXT"
        )
    return next(iter(groups))


def check_machine(
    runs: Sequence[ObservedRun], machine: Profile, *, anyway: bool = False
) -> list[str]:
    """Check that *runs* were made on the machine of *machine*; return notices for the user.

    Machines of the same name can differ twofold in the costs of calls, so runs of another machine
    are refused: a fit would hide the difference in the costs of the server.

    Raises
    ------
    FitError
        If some runs are of another machine and *anyway* is false.
    """
    ours = str(machine.machine.get("id", ""))
    theirs = sorted({run.source.machine for run in runs} - {""})
    others = [name for name in theirs if ours and name != ours]
    if others and not anyway:
        raise FitError(
            f"{machine.name} was measured on {ours}, but runs are of {_listed(others)}: measure "
            "that machine, choose its --profile, or use the runs with --anyway"
        )
    notes = []
    if others:
        notes.append(f"runs of {_listed(others)} are used with the costs of {ours}, as requested")
    if any(not run.source.machine for run in runs):
        notes.append(f"some runs do not record their machine: {ours} is assumed")
    return notes


def _listed(names: Sequence[str]) -> str:
    quoted = [f'"{name}"' for name in names[:3]]
    more = len(names) - len(quoted)
    return ", ".join(quoted) + (f" and {more} more" if more else "")
