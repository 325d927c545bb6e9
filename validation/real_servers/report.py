"""The report on real servers: what was forecast of each, beside what was measured.

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
from ...calibration.profiles.cost_profile import Profile, ProfileError, shipped_profiles
from ...calibration.profiles.cost_tables import CONNECTION, REQUEST
from ...calibration.records.measured_runs import DataError
from ...sim.files.whole_files import write_whole
from ..report.page import rendered
from ..report.tables import DASH, TextTable, interval, number, signed
from ..report.terminal import rich_table
from .campaign import CALLS_FILE, FIT_FILE, HELD_OUT_FILE
from .comparing import Compared, Summary, compared, summary
from .description import RealServer
from .forecasting import Forecasts, forecast_all
from .plan import SERVERS, Case, cases_of

Fact = tuple[str, str]
"""Of whom, and what."""
MEASURED_FOLDER = Path(__file__).parent / "measured"
_TEXT = (
    "Servers from Debian's packages, started by the harness. A fit sees one back end without idle "
    "connections; everything else was forecast before its runs were read. Earlier runs of the same "
    "points had been seen while the models learned how connections are handed over and when slices "
    "end: the runs are new to the forecasts, the points are not. Capacity is replies a second of "
    "64 clients that wait for nothing but replies. + means that the forecast is above the "
    "measurement."
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
        Of the machine; None: the shipped one of the machine that the runs are from.
    output:
        Folder for report.html and scores.json; None writes neither.

    Raises
    ------
    DataError, FitError, ProfileError
        If there are no runs, or they cannot be used.
    """
    console = console or Console(width=132)
    entries: list[Compared] = []
    facts: list[Fact] = []
    for name in names:
        found, told = _of_server(folder / name, SERVERS[name], profile)
        entries += found
        facts += told
    if not entries:
        raise DataError(f"{folder}: holds no runs of {', '.join(names)}")
    measured = dict.fromkeys(entry.case.server.name for entry in entries)
    tables = [summary_table(entries), *(case_table(name, entries) for name in measured)]
    for table in tables:
        console.print(rich_table(table))
    for name, text in facts:
        console.print(f"{name}: {text}", markup=False, soft_wrap=True)
    if output:
        output.mkdir(parents=True, exist_ok=True)
        write_whole(output / "scores.json", json.dumps(scores(entries), indent=1) + "\n")
        page = rendered("report.html.jinja", sections=[html_section(tables, facts)], effects=None)
        write_whole(output / "report.html", page)
        for path in (output / "report.html", output / "scores.json"):
            console.print(str(path), markup=False, soft_wrap=True)
    return entries


def _of_server(
    folder: Path, server: RealServer, profile: Path | None
) -> tuple[list[Compared], list[Fact]]:
    """Return each case of *server* beside its forecast, and what else is to be said of it."""
    fit_runs, counted = (read_observed(folder / name) for name in (FIT_FILE, CALLS_FILE))
    if not fit_runs.rows:
        return [], []
    machine = Profile.read(profile or profile_of(fit_runs.rows))
    cases = cases_of(server)
    said = forecast_all(machine, cases, fit_runs.rows, counted.rows)
    # Only now: nothing of what follows has been known to the forecasts.
    held_out = read_observed(folder / HELD_OUT_FILE)
    runs = [*fit_runs.rows, *held_out.rows]
    _check_machine(server.name, runs, machine)
    found = compared(said.of_case, runs, cases)
    facts = [(server.name, _fitted(said, machine))]
    missing = [case for case in cases if case not in [entry.case for entry in found]]
    if missing:
        facts.append((f"{server.name}, not measured", _listed(missing)))
    if not counted.rows:
        facts.append((server.name, "no calls were counted: changes of interest are taken as none"))
    for loaded in (fit_runs, counted, held_out):
        facts += [(server.name, notice) for notice in loaded.notices]
    return found, facts


def _check_machine(name: str, runs: Iterable[ObservedRun], machine: Profile) -> None:
    """Refuse *runs* of another machine than the one whose prices *machine* has."""
    ours = str(machine.machine.get("id", ""))
    others = sorted({run.source.machine for run in runs} - {ours, ""})
    if ours and others:
        raise DataError(
            f"{name}: runs must be of {ours}, where profile {machine.name} was measured, got runs "
            f"of {', '.join(others)}"
        )


def profile_of(runs: Iterable[ObservedRun]) -> Path:
    """Return the shipped profile of the machine that *runs* are from.

    Raises
    ------
    ProfileError
        If it is not shipped.
    """
    machines = sorted({run.source.machine for run in runs})
    shipped = shipped_profiles()
    for name in machines:
        if name in shipped:
            return shipped[name]
    raise ProfileError(
        f"--profile: must be given, as no profile of {', '.join(machines)} is shipped"
    )


def _listed(missing: Sequence[Case]) -> str:
    """Return a sentence that names the cases without an undisturbed run."""
    names = "; ".join(case.label.removeprefix(f"{case.server.name} ") for case in missing)
    return f"no undisturbed run of {names}"


def _fitted(said: Forecasts, machine: Profile) -> str:
    """Return a sentence on what a request and a connection take."""
    costs = said.fit.profile.cost["application"]

    def told(name: str) -> str:
        cost = costs.get(name)
        if cost is None:
            return DASH
        return f"{number(cost.value[0])} ns ({interval(cost.low[0], cost.high[0])})"

    residual = max(costs[name].residual for name in (REQUEST, CONNECTION) if name in costs)
    return (
        f"a request takes {told(REQUEST)}, {said.changes_ns} ns of it for changes of interest, a "
        f"connection {told(CONNECTION)}; on top of profile {machine.name}; the fit misses its own "
        f"points by {residual:.1%}"
    )


def summary_table(entries: Sequence[Compared]) -> TextTable:
    """Return how well each server was forecast, and all together."""
    names = list(dict.fromkeys(e.case.server.name for e in entries))
    rows = [
        (name, *_summed(summary(e for e in entries if e.case.server.name == name)))
        for name in names
    ]
    rows.append(("all", *_summed(summary(entries))))
    columns = ("server", "points", "median", "worst", "noise", "order right")
    note = (
        "Absolute errors of capacity over held-out points; noise is half the range of repeats, in "
        "the median; order is of pairs of points of several repeats whose ranges separate."
    )
    return TextTable("Real servers", note, columns, rows)


def _summed(found: Summary) -> tuple[str, ...]:
    shares = (found.median, found.worst, found.noise)
    return (
        str(found.n_cases),
        *(DASH if value is None else f"{value:.1%}" for value in shares),
        f"{found.ordered}/{found.pairs}",
    )


def case_table(name: str, entries: Sequence[Compared]) -> TextTable:
    """Return all points of the server *name*."""
    rows = [
        (
            e.case.variant.name + ("*" if e.case.is_fitted else ""),
            str(e.case.idle),
            str(e.case.requests),
            number(e.measured_per_s),
            f"{e.spread:.1%}",
            f"{len(e.rates_per_s)}" + (f" of {len(e.rates_per_s) + e.n_disturbed}"
                                       if e.n_disturbed else ""),
            number(e.forecast_per_s),
            _interval(e),
            signed(e.error),
        )
        for e in entries
        if e.case.server.name == name
    ]  # fmt: skip
    columns = (
        "variant", "idle", "requests", "meas/s", "±", "runs", "fcst/s", "95% interval", "error",
    )  # fmt: skip
    note = "* The fit has seen this point; it is not scored."
    return TextTable(name, note, columns, rows)


def _interval(entry: Compared) -> str:
    low, high = entry.forecast.low, entry.forecast.high
    return interval(low.throughput_per_s, high.throughput_per_s)


def html_section(tables: Sequence[TextTable], facts: Sequence[Fact]) -> dict[str, Any]:
    """Return the section of the page, as its template takes it."""
    return {
        "title": "Real servers",
        "text": _TEXT,
        "notices": [],
        "first": [tables[0]],
        "figures": [],
        "tables": list(tables[1:]),
        "folded": [],
        "provenance": list(facts),
        "seeds": [],
    }


def scores(entries: Sequence[Compared]) -> dict[str, Any]:
    """Return all scores as they go into a file."""
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
