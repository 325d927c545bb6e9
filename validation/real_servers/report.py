"""The report on real servers: forecasts of each, and measurements.

fit runs ─► forecasts ──► (only now) held-out runs ──► table, scores.json, report.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from ...calibration.observed.observed_run import ObservedRun, read_observed
from ...calibration.profiles.cost import CONNECTION, REQUEST
from ...calibration.profiles.cost_profile import Profile, ProfileError, shipped_profiles
from ...calibration.records.measured_runs import DataError
from ...sim.files.tables import DASH, Column, Table, rich_table
from ...sim.files.whole_files import write_whole
from ..report.page import Fact, Shown, interval, number, page, tenths
from ..scoring.value_verdicts import signed
from .campaign import CALLS_FILE, FIT_FILE, HELD_OUT_FILE
from .forecasting import Compared, Forecasts, Summary, compared, forecast_all, summary
from .plan import SERVERS, Case, RealServer, cases_of

MEASURED_FOLDER = Path(__file__).parent / "measured"
_TEXT = (
    "The servers are Debian packages, started by the harness. A fit uses one back end without idle "
    "connections. All other points were forecast before their runs were read. Earlier runs of the "
    "same points were seen during the modelling of connection hand-over and of scheduler slices: "
    "the runs are new to the forecasts, the points are not. Capacity is replies per second to 64 "
    "clients that wait for replies only. + means that the forecast is above the measurement."
)


def report(
    folder: Path,
    names: Sequence[str],
    *,
    profile: Path | None = None,
    output: Path | None = None,
    console: Console | None = None,
) -> list[Compared]:
    """Print the report on the servers *names* whose runs are in *folder*, and return its rows.

    Parameters
    ----------
    profile:
        The machine's profile; None: the shipped profile of the machine that made the runs.
    output:
        Folder for report.html and scores.json; None: neither is written.

    Raises
    ------
    DataError, FitError, ProfileError
        If there are no runs, or they are unusable.
    """
    console = console or Console(width=132)
    entries: list[Compared] = []
    facts: list[Fact] = []
    for name in names:
        found, told = _of_server(folder / name, SERVERS[name], profile)
        entries += found
        facts += told
    if not entries:
        raise DataError(
            f"{folder}: must hold runs of {', '.join(names)}, got none: "
            f"`dispatchsim lab measure-servers --output {folder}` writes them"
        )
    first, *tables = (
        summary_table(entries),
        *(case_table(name, entries) for name in _names(entries)),
    )
    for table in (first, *tables):
        console.print(rich_table(table))
    for name, text in facts:
        console.print(f"{name}: {text}", markup=False, soft_wrap=True)
    if output:
        output.mkdir(parents=True, exist_ok=True)
        write_whole(output / "scores.json", json.dumps(scores(entries), indent=1) + "\n")
        shown = Shown("Real servers", _TEXT, "", first=[first], tables=tables, facts=facts)
        write_whole(output / "report.html", page([shown]))
        for path in (output / "report.html", output / "scores.json"):
            console.print(str(path), markup=False, soft_wrap=True)
    return entries


def _of_server(
    folder: Path, server: RealServer, profile: Path | None
) -> tuple[list[Compared], list[Fact]]:
    """Return each case of *server* with its forecast, and further facts."""
    fit_runs, counted = (read_observed(folder / name) for name in (FIT_FILE, CALLS_FILE))
    if not fit_runs.rows:
        return [], []
    machine = Profile.read(profile or profile_of(fit_runs.rows))
    cases = cases_of(server)
    said = forecast_all(machine, cases, fit_runs.rows, counted.rows)
    # Held-out runs are read only now, after the forecasts.
    held_out = read_observed(folder / HELD_OUT_FILE)
    runs = [*fit_runs.rows, *held_out.rows]
    _check_machine(server.name, runs, machine)
    found = compared(said.of_case, runs, cases)
    facts = [(server.name, _fitted(said, machine))]
    missing = [case for case in cases if case not in [entry.case for entry in found]]
    if missing:
        facts.append((f"{server.name}, not measured", _listed(missing)))
    if not counted.rows:
        facts.append((server.name, "no calls were counted: no changes of interest are assumed"))
    for loaded in (fit_runs, counted, held_out):
        facts += [(server.name, notice) for notice in loaded.notices]
    return found, facts


def _check_machine(name: str, runs: Iterable[ObservedRun], machine: Profile) -> None:
    """Refuse *runs* of another machine than that of the costs in *machine*."""
    ours = str(machine.machine.get("id", ""))
    others = sorted({run.source.machine for run in runs} - {ours, ""})
    if ours and others:
        raise DataError(
            f"{name}: runs must be of {ours}, where profile {machine.name} was measured, got runs "
            f"of {', '.join(others)}"
        )


def profile_of(runs: Iterable[ObservedRun]) -> Path:
    """Return the shipped profile of the machine that made *runs*.

    Raises
    ------
    ProfileError
        If there is none.
    """
    machines = sorted({run.source.machine for run in runs})
    shipped = shipped_profiles()
    for name in machines:
        if name in shipped:
            return shipped[name]
    raise ProfileError(f"--profile: must be given, as {', '.join(machines)} has no shipped profile")


def _listed(missing: Sequence[Case]) -> str:
    """Return a sentence that names the cases without an undisturbed run."""
    names = "; ".join(case.label.removeprefix(f"{case.server.name} ") for case in missing)
    return f"no undisturbed run of {names}"


def _fitted(said: Forecasts, machine: Profile) -> str:
    """Return a sentence with the costs of a request and of a connection."""
    costs = said.fit.profile.cost["application"]

    def shown(name: str) -> str:
        cost = costs.get(name)
        if cost is None:
            return DASH
        return f"{number(cost.value[0])} ns ({interval((cost.low[0], cost.high[0]))})"

    residual = max(costs[name].residual for name in (REQUEST, CONNECTION) if name in costs)
    return (
        f"a request takes {shown(REQUEST)}, {said.changes_ns} ns of it for changes of interest, a "
        f"connection {shown(CONNECTION)}; on top of profile {machine.name}; error of the fit at "
        f"its own points: {residual:.1%}"
    )


def summary_table(entries: Sequence[Compared]) -> Table:
    """Return the accuracy of the forecasts for each server, and for all."""
    groups = {name: _of_name(name, entries) for name in _names(entries)}
    columns: list[Column[tuple[str, Summary]]] = [
        Column("server", lambda row: row[0], words=True),
        Column("points", lambda row: row[1].n_cases),
        Column("median error", lambda row: row[1].median, tenths),
        Column("worst error", lambda row: row[1].worst, tenths),
        Column("noise", lambda row: row[1].noise, tenths),
        Column("pairs in right order", lambda row: f"{row[1].ordered}/{row[1].pairs}"),
    ]
    note = (
        "Absolute errors of capacity over held-out points. Noise: half the range of repeats, "
        "median over points with several repeats. Pairs: two such points whose ranges do "
        "not overlap."
    )
    rows = [(name, summary(own)) for name, own in {**groups, "all": entries}.items()]
    return Table.of("Real servers", rows, columns, note)


def _names(entries: Sequence[Compared]) -> Iterable[str]:
    return dict.fromkeys(entry.case.server.name for entry in entries)


def _of_name(name: str, entries: Sequence[Compared]) -> list[Compared]:
    return [entry for entry in entries if entry.case.server.name == name]


def case_table(name: str, entries: Sequence[Compared]) -> Table:
    """Return all points of the server *name*."""
    return Table.of(
        name,
        _of_name(name, entries),
        _CASE_COLUMNS,
        "* The fit used this point; it is not scored.",
    )


def _variant(entry: Compared) -> str:
    return entry.case.variant.name + ("*" if entry.case.is_fitted else "")


def _runs(entry: Compared) -> str:
    n_used = len(entry.rates_per_s)
    return f"{n_used} of {n_used + entry.n_disturbed}" if entry.n_disturbed else str(n_used)


_CASE_COLUMNS: list[Column[Compared]] = [
    Column("variant", _variant, words=True),
    Column("idle", lambda e: e.case.idle),
    Column("requests", lambda e: e.case.requests),
    Column("measured (/s)", lambda e: e.measured_per_s, number),
    Column("±", lambda e: e.spread, tenths),
    Column("runs", _runs),
    Column("forecast (/s)", lambda e: e.forecast_per_s, number),
    Column(
        "95% interval",
        lambda e: (e.forecast.low.throughput_per_s, e.forecast.high.throughput_per_s),
        interval,
    ),
    Column("error", lambda e: e.error, signed),
]


def scores(entries: Sequence[Compared]) -> dict[str, Any]:
    """Return all scores as written to the file."""
    return {
        "format": "dispatchsim-real-servers/1",
        "summary": asdict(summary(entries)),
        "points": [
            {
                "server": e.case.server.name,
                "variant": e.case.variant.name,
                "idle": e.case.idle,
                "requests": e.case.requests,
                "fitted": e.case.is_fitted,
                "measured_per_s": list(e.rates_per_s),
                "disturbed": e.n_disturbed,
                "forecast_per_s": e.forecast_per_s,
                "error": e.error,
            }
            for e in entries
        ],
    }
