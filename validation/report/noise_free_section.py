"""The report section on the target without noise: every run against its own simulation.

    runs ────┬─► forecasts, run by run ─┬─► scores ─► promises
    profile ─┴─► baselines ─────────────┘     └─────► ledgers ◄─ instructions/*.json

Errors in its tables carry a sign (+: the forecast is above the measurement) and a ! beyond the
promised limit. Counts are per request. Below its capacity a server's metrics follow its costs.
At or above it they follow its queues, where one connection more or less may decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ...calibration.points.point import Point
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import RunRecord
from ...calibration.running.preparation import open_connections
from ...sim.engine.workers import workers_for
from ...sim.files.tables import DASH, Column, Row, Table
from ..forecast.baselines import Baseline, baselines
from ..forecast.forecast import unknown
from ..forecast.kept_runs import KeptRuns
from ..forecast.provenance import MachineRuns, Provenance, provenance_of, read_machine_runs
from ..noise_free.ledger import ACTIVITIES, Ledger, ledgers, read_profiles
from ..noise_free.promises import LIMITS, NAMES, Promise, is_within, promises, worst_points
from ..noise_free.repeated import (
    N_REPEATED,
    RepeatedPoint,
    RepeatedSummary,
    repeated_points,
    summary_of,
)
from ..noise_free.run_forecast import measured_figures, repeating, run_forecasts
from ..noise_free.scoring import RunErrors, RunScore, by_point, score_runs, worst_error
from ..points.figures import median
from ..points.measured_points import MeasuredPoint, group
from ..scoring.regimes import CAPACITY, CPU, EVENTS, PAST, regime_at
from ..scoring.suspects import METRICS, P50, P99, Reading, is_read, suspicions
from ..scoring.targets import OURS
from .hardware_section import out_of_reach
from .noise_free_figures import CAPTIONS, noise_free_figures
from .page import (
    DrawnFigure,
    Shown,
    count_text,
    error_text,
    facts_of,
    heading_of,
    microseconds,
    number,
    percent,
    size_text,
    tenths,
)
from .point_tables import missing_tables
from .summary_tables import SuspectWords, suspect_table

WORST = 10
"""The number of points that are shown in full."""
REGIMES = ("below capacity, open", "closed loops", "at or above the capacity")
COLUMNS = {
    "cpu_ns_per_request": "CPU (ns)",
    "waits_per_request": "waits",
    "events_per_wait": "events per wait",
    "mean_ns": "mean latency",
    "p99_ns": "p99 latency",
    "throughput_per_s": "replies/s",
}
"""The table heading of each metric."""
COUNTS = {"interrupts": "interrupts", "packets": "packets", "switches": "sleeps"}
"""The table heading of each count that shows which structure is wrong."""
_MORE_COUNTS = {**COUNTS, "reads": "reads", "read_again": "empty reads",
                "accept_again": "empty accepts", "writes": "writes"}  # fmt: skip
_COUNT_NAMES = (
    "Interrupts: rounds of interrupts; packets: packets to the server; sleeps: times that the "
    "server went to sleep"
)

OF_RUNS = SuspectWords(
    {**METRICS, CPU: "CPU time of a request", P50: "mean latency", P99: "p99 latency"},
    "limit",
    "beyond its limit",
)
"""The words of the table of suspects: a run without noise has a promised limit."""
_READ_AS = {
    "events_per_wait": EVENTS,
    "cpu_ns_per_request": CPU,
    "throughput_per_s": CAPACITY,
    "mean_ns": P50,
    "p99_ns": P99,
}
"""The metric of noisy runs whose suspects are those of each metric of a run without noise."""
_Runs = Sequence[RunScore]
"""The runs of one point, or of one server."""


def promise_table(found: Sequence[Promise]) -> Table:
    """Return the table of promised limits and measured errors, with the baselines."""
    names = list(dict.fromkeys(name for p in found for name in p.errors))

    def baseline(name: str) -> Column[Promise]:
        return Column(name, lambda p: p.errors[name].median, size_text)

    columns: list[Column[Promise]] = [
        Column("metric", lambda p: NAMES[p.figure], words=True),
        Column("limit", lambda p: p.limit, tenths),
        Column("verdict", lambda p: DASH if p.verdict == "not measured" else p.verdict),
        Column("points within", lambda p: f"{p.n_points_within}/{p.n_points}"),
        Column("runs within", lambda p: f"{p.n_runs_within}/{p.errors[OURS].n_runs}"),
        Column("median error", lambda p: p.errors[OURS].median, size_text),
        Column("worst error", lambda p: p.errors[OURS].worst, size_text),
        *(baseline(name) for name in names if name != OURS),
    ]
    note = (
        "Absolute errors over the runs of held-out points. A point is within the limit if all of "
        "its runs are. The last columns are the median errors of the baselines."
    )
    return Table.of("Promises", found, columns, note)


def regime_of(score: RunScore) -> str:
    """Return the load regime of a run.

    If the capacity of the server was not measured, the regime is whether it kept up in this run.
    """
    if score.point.load.loop == "closed":
        return REGIMES[1]
    over = score.saturated if score.load_share is None else score.load_share >= 1
    return REGIMES[2] if over else REGIMES[0]


def regime_table(scores: _Runs) -> Table:
    """Return each metric's median error by regime, and the share of runs within the limit."""
    of_regimes = [promises([s for s in scores if regime_of(s) == regime]) for regime in REGIMES]

    def cell(promise: Promise) -> str:
        found = promise.errors[OURS]
        within = f"({promise.n_runs_within} of {found.n_runs})"
        return f"{size_text(found.median)} {within}" if found.n_runs else DASH

    rows = [
        (NAMES[row[0].figure], tenths(row[0].limit), *map(cell, row))
        for row in zip(*of_regimes, strict=True)
    ]
    note = (
        "Median of the absolute errors over held-out runs; in brackets the number of runs within "
        "the limit."
    )
    return Table.of_cells("By load", ("metric", "limit", *REGIMES), rows, note)


def repeated_table(found: RepeatedSummary) -> Table:
    """Return how the saturated points compare with runs of other arrivals, all together."""
    limit = tenths(LIMITS["throughput_per_s"])
    rows = [
        ("points with the median within " + limit, f"{found.n_within} of {found.n_points}"),
        ("median error of these medians", size_text(found.median_error)),
        ("measured runs within the range", f"{found.n_inside} of {found.n_runs}"),
        ("expected if the model were right", percent(found.expected)),
        ("median width of the range", size_text(found.median_width)),
    ]
    note = (
        f"Held-out points at or above the capacity, simulated {N_REPEATED} times with other "
        "arrivals. A queue may settle in one of several states, and one arrival decides which. So "
        "the median and the range of the replies per second are compared, not run by run."
    )
    return Table.of_cells(
        "At or above the capacity, with other arrivals", ("", "result"), rows, note
    )


def repeated_point_table(points: Sequence[RepeatedPoint]) -> Table:
    """Return each saturated point with its measured and simulated rates, worst first."""

    def span(rates: Sequence[float]) -> str:
        low, high = number(min(rates)), number(max(rates))
        return low if low == high else f"{low} ... {high}"

    columns: list[Column[RepeatedPoint]] = [
        Column("point", lambda p: p.point.label, words=True),
        Column("measured replies/s", lambda p: span(p.measured_per_s)),
        Column("simulated", lambda p: span(p.simulated_per_s)),
        Column("runs inside", lambda p: f"{p.n_inside}/{len(p.measured_per_s)}"),
        Column("error of median", lambda p: error_text(p.error, LIMITS["throughput_per_s"])),
    ]
    ordered = sorted(points, key=lambda p: -abs(p.error))
    note = f"Measured runs, and {N_REPEATED} simulated with other arrivals; !: beyond the limit."
    return Table.of("Saturated points, with other arrivals", ordered, columns, note)


def readings_of_runs(scores: _Runs) -> list[Reading]:
    """Return the errors of the held-out runs, in the regimes of noisy runs.

    An error up to the promised limit counts as noise.
    """
    found = []
    for s in scores:
        regime = _noisy_regime_of(s)
        if s.seen or regime is None:
            continue
        for figure, read_as in _READ_AS.items():
            error = getattr(s.errors, figure)
            if error is not None and is_read(read_as, regime):
                found.append(Reading(read_as, regime, s.point, error, LIMITS[figure]))
    return found


def _noisy_regime_of(score: RunScore) -> str | None:
    """Return the regime of a run, by the names of regimes.py; None if its load is unknown."""
    return regime_at(score.point, score.load_share) or (PAST if score.saturated else None)


def group_tables(scores: _Runs) -> list[Table]:
    """Return each metric's worst error by server: in full, and the part due to structure."""
    unseen = [s for s in scores if not s.seen]
    groups = list(_by_server(unseen).values())

    def table(title: str, note: str, errors_of: Callable[[RunScore], RunErrors]) -> Table:
        def within(runs: _Runs) -> str:
            points = by_point(runs).values()
            n_within = sum(all(is_within(errors_of(s)) for s in own) for own in points)
            return f"{n_within}/{len(points)}"

        def worst(figure: str) -> Column[_Runs]:
            return Column(
                COLUMNS[figure],
                lambda runs: error_text(worst_error(map(errors_of, runs), figure), LIMITS[figure]),
            )

        columns = [
            Column[_Runs]("server", lambda runs: _server(runs[0].point), words=True),
            Column[_Runs]("idle", lambda runs: runs[0].point.idle.connections),
            Column[_Runs]("load", lambda runs: runs[0].point.load.loop),
            Column("within", within),
            *map(worst, LIMITS),
        ]
        return Table.of(title, groups, columns, note)

    return [
        table(
            "By server",
            "Points within all limits, and the worst error of each metric; !: beyond the limit.",
            lambda s: s.errors,
        ),
        table(
            "By server, at equal CPU",
            "The same with each run's costs scaled until its CPU is as busy as measured. The "
            "remaining error does not come from the level of the costs.",
            lambda s: s.at_equal_cpu,
        ),
    ]


def worst_table(scores: _Runs, n: int = WORST) -> Table:
    """Return the *n* points with the largest errors in full."""
    rows = [row for score in worst_points(scores, n) for row in _rows_of(score)]
    note = (
        "One run of each point, latency in µs: measured, forecast, error, and the error at equal "
        f"CPU. {_COUNT_NAMES}; all are per request. Throughput is scored where the server is "
        "saturated."
    )
    headings = ("point", "", *COLUMNS.values(), *COUNTS.values())
    return Table.of_cells(f"The worst {len(rows) // 4} points", headings, rows, note, n_words=2)


def worst_runs_table(scores: _Runs) -> Table:
    """Return the held-out run of each metric with the largest error."""
    worst: dict[str, RunScore] = {}
    for figure in LIMITS:
        sizes = [
            (abs(error), index)
            for index, s in enumerate(scores)
            if not s.seen and (error := getattr(s.errors, figure)) is not None
        ]
        if sizes:
            worst[figure] = scores[max(sizes)[1]]

    def value(side: str) -> Column[str]:
        return Column(
            side, lambda figure: figure_text(figure, getattr(getattr(worst[figure], side), figure))
        )

    columns: list[Column[str]] = [
        Column("error of", NAMES.__getitem__, words=True),
        Column("worst point", lambda figure: worst[figure].point.label, words=True),
        value("measured"),
        value("forecast"),
        Column("error", lambda figure: getattr(worst[figure].errors, figure), error_text),
    ]
    return Table.of("Worst points", list(worst), columns, "CPU in ns, latency in µs.")


_PLACE = (
    Column[_Runs]("point", lambda runs: _load(runs[0]), words=True),
    Column[_Runs]("load", lambda runs: runs[0].load_share, percent),
)


def point_tables(scores: _Runs) -> list[Table]:
    """Return the metrics of every point, a table for each load curve."""

    def figure(name: str) -> Iterable[Column[_Runs]]:
        yield Column(
            COLUMNS[name],
            lambda runs: figure_text(name, median([getattr(s.measured, name) for s in runs])),
        )
        yield Column(
            "error",
            lambda runs: error_text(worst_error((s.errors for s in runs), name), LIMITS[name]),
        )

    note = (
        "Median of the measured runs, latency in µs, and the largest error of a run; !: beyond the "
        "limit; *: used by the fit, not scored."
    )
    columns = [*_PLACE, Column[_Runs]("runs", len), *(c for name in LIMITS for c in figure(name))]
    return [Table.of(title, points, columns, note) for title, points in _curves(scores)]


def count_tables(scores: _Runs) -> list[Table]:
    """Return the counts per request of every point, a table for each load curve."""

    def mean(runs: _Runs, counts: str, name: str) -> str:
        known = [found[name] for s in runs if name in (found := getattr(s, counts))]
        return count_text(fmean(known) if known else None)

    def count(name: str, heading: str) -> Iterable[Column[_Runs]]:
        yield Column(heading, lambda runs: mean(runs, "counts", name))
        yield Column("forecast", lambda runs: mean(runs, "forecast_counts", name))

    note = f"Means over the runs, measured and forecast. {_COUNT_NAMES}."
    columns = [*_PLACE, *(c for item in _MORE_COUNTS.items() for c in count(*item))]
    return [
        Table.of(f"{title}, counts per request", points, columns, note)
        for title, points in _curves(scores)
    ]


def ledger_table(ledger: Ledger) -> Table:
    """Return the CPU time of a request by activity at one point, measured and simulated."""
    measured, simulated = ledger.measured, ledger.simulated
    whole, simulated_whole = sum(measured.values()), sum(simulated.values())
    columns: list[Column[str]] = [
        Column("activity", str, words=True),
        Column("instructions", lambda name: measured[name], number),
        Column("simulated ns", lambda name: simulated[name], number),
        Column("difference", lambda name: f"{simulated[name] - measured[name]:+.0f}"),
        Column(
            "share of all",
            lambda name: (simulated[name] - measured[name]) / whole if whole else None,
            error_text,
        ),
    ]
    note = (
        f"Instructions per request over {ledger.n_replies} replies ({ledger.source}), and "
        f"simulated ns per request. By the kernel's clock a request kept the CPU busy for "
        f"{ledger.busy_ns:.0f} ns."
    )
    table = Table.of(f"CPU ledger: {ledger.point.label}", ACTIVITIES, columns, note)
    all_of_it = (number(whole), number(simulated_whole), f"{simulated_whole - whole:+.0f}")
    return table.with_row(("all", *all_of_it, ""))


def function_table(ledger: Ledger) -> Table:
    """Return the functions with the most instructions at one point."""
    whole = sum(ledger.measured.values())
    columns: list[Column[tuple[str, float]]] = [
        Column("function", lambda item: item[0], words=True),
        Column("instructions", lambda item: f"{item[1]:.1f}"),
        Column("share", lambda item: item[1] / whole if whole else None, percent),
    ]
    note = "Instructions per request in the function itself, and their share of all instructions."
    return Table.of(f"Functions: {ledger.point.label}", ledger.functions.items(), columns, note)


def ledger_summary(found: Sequence[Ledger]) -> Table:
    """Return the totals of the ledgers, and the activities with the largest differences."""

    def mostly(ledger: Ledger) -> str:
        gaps = {name: ledger.simulated[name] - ledger.measured[name] for name in ACTIVITIES}
        most = sorted(gaps, key=lambda name: -abs(gaps[name]))[:2]
        return ", ".join(f"{name} {gaps[name]:+.0f}" for name in most)

    def error(ledger: Ledger) -> float | None:
        whole = sum(ledger.measured.values())
        return sum(ledger.simulated.values()) / whole - 1 if whole else None

    columns: list[Column[Ledger]] = [
        Column("point", lambda entry: entry.point.label, words=True),
        Column("measured", lambda entry: sum(entry.measured.values()), number),
        Column("forecast", lambda entry: sum(entry.simulated.values()), number),
        Column("error", error, error_text),
        Column("largest differences", mostly),
    ]
    note = "Instructions and simulated ns per request; report.html has all activities."
    return Table.of("CPU ledger", found, columns, note)


def figure_text(figure: str, value: float) -> str:
    """Return the value of a metric in the unit of its column."""
    if figure in ("waits_per_request", "events_per_wait"):
        return count_text(value)
    return microseconds(value) if figure in ("mean_ns", "p99_ns") else number(value)


def _rows_of(score: RunScore) -> list[Row]:
    """Return measured, forecast, error and the error at equal CPU of one run."""
    point = score.point
    idle = f"idle {point.idle.connections}"
    load = point.label.removeprefix(f"{point.server.mechanism} {idle}").strip()
    share = "" if score.load_share is None else f", {percent(score.load_share)} load"
    pairs = [(score.counts.get(name), score.forecast_counts.get(name)) for name in COUNTS]

    def count_error(measured: float | None, forecast: float | None) -> str:
        return error_text(forecast / measured - 1) if measured and forecast is not None else DASH

    def figures(record: RunScore, name: str) -> list[str]:
        return [figure_text(f, v) for f, v in getattr(record, name)._asdict().items()]

    def errors(found: RunErrors) -> list[str]:
        return [error_text(e, LIMITS[f]) for f, e in found._asdict().items()]

    return [
        (
            point.server.mechanism,
            "measured",
            *figures(score, "measured"),
            *(count_text(a) for a, _ in pairs),
        ),
        (load, "forecast", *figures(score, "forecast"), *(count_text(b) for _, b in pairs)),
        (idle + share, "error", *errors(score.errors), *(count_error(*pair) for pair in pairs)),
        (
            f"run {score.record.repeat}",
            "equal CPU",
            *errors(score.at_equal_cpu),
            *([""] * len(pairs)),
        ),
    ]


def _curves(scores: _Runs) -> list[tuple[str, list[_Runs]]]:
    """Return title and points of each curve, each point its runs: one server, loads ascending."""

    def load(runs: _Runs) -> tuple[float, ...]:
        return runs[0].point.users, runs[0].point.rate_per_s

    return [
        (f"{server}, {idle} idle, {loop} loop", sorted(by_point(runs).values(), key=load))
        for (server, idle, loop), runs in _by_server(scores).items()
    ]


def _by_server(scores: _Runs) -> dict[tuple[str, int, str], list[RunScore]]:
    """Return the runs by server, idle count and kind of load, in this order."""
    groups: dict[tuple[str, int, str], list[RunScore]] = {}
    for s in scores:
        groups.setdefault(
            (_server(s.point), s.point.idle.connections, s.point.load.loop), []
        ).append(s)
    return dict(sorted(groups.items()))


def _server(point: Point) -> str:
    """Return the server of a point: its label without idle count and load."""
    words = point.label.replace(f" idle {point.idle.connections} ", " ", 1).split()
    del words[1:3]  # the load
    return " ".join([*words, "read"] if point.server.read_after_accept else words)


def _load(score: RunScore) -> str:
    """Return the load of a run, with a mark if the fit used it."""
    point = score.point
    load = f"{point.users} users" if point.load.loop == "closed" else f"{point.rate_per_s:.0f}/s"
    return load + ("*" if score.seen else "")


_TEXT = (
    "The same C servers run on a Linux kernel in an emulator that counts instructions, one a "
    "nanosecond. Runs repeat exactly, so each is compared with the simulation of its own arrivals. "
    "A difference is an effect that the model lacks, or a wrong cost. Caches are not emulated."
)


@dataclass(frozen=True)
class NoiseFreeSection:
    """The results of a validation on the target without noise."""

    name: str
    provenance: Provenance
    scores: list[RunScore]
    promises: list[Promise]
    repeated: list[RepeatedPoint]
    ledgers: list[Ledger]
    missing: list[MeasuredPoint]

    @property
    def repeated_summary(self) -> RepeatedSummary:
        """All saturated points with other arrivals together."""
        return summary_of(self.repeated, LIMITS["throughput_per_s"])


def noise_free_section(
    machine: MachineRuns,
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
    kept: KeptRuns | None = None,
) -> NoiseFreeSection:
    """Simulate every run that was measured on *machine*, and compare.

    Parameters
    ----------
    workers:
        Threads to simulate in; 1: this one.
    progress:
        Called with (runs simulated, runs to simulate).
    kept:
        Forecasts of earlier runs, from `kept_forecasts`.

    Raises
    ------
    ValueError
        If the machine has no runs, or an instruction profile breaks its format.
    """
    profile = Profile.read(machine.profile_path)
    runs = read_machine_runs(machine.folder)
    profiles = read_profiles(machine.folder / "instructions")
    points = list(dict.fromkeys(record.point for record in runs.all))
    known = {point for point in points if unknown(profile, point) is None}
    priced = {k: v for k, v in profiles.items() if unknown(profile, v.point) is None}
    used = [record for record in runs.all if record.accepted and record.point in known]
    with workers_for("auto", workers) as executor:
        found = run_forecasts(
            [repeating(record, profile) for record in used],
            executor=executor,
            progress=progress,
            kept=kept,
        )
        answers = _baselines_of(used, runs.fitted, profile)
        scores = score_runs(used, found, answers, {record.point for record in runs.fitted})
        repeated = repeated_points(scores, profile, executor=executor, kept=kept)
    notices = runs.notices + out_of_reach(points, profile)
    return NoiseFreeSection(
        name=machine.name,
        provenance=provenance_of(
            machine,
            runs.all,
            profile,
            method={
                "forecast": "each run by itself, with its own arrivals and clients without CPU cost"
            },
            notices=notices,
        ),
        scores=scores,
        promises=promises(scores),
        repeated=repeated,
        ledgers=ledgers(priced, profile),
        missing=[entry for entry in group(runs.all) if not entry.measured],
    )


def show_noise_free(section: NoiseFreeSection) -> Shown:
    """Return the parts of *section* that a report shows; a terminal shows no single points."""
    scores, found = section.scores, section.ledgers
    wanted, by_load = promise_table(section.promises), regime_table(scores)
    suspects = suspect_table(suspicions(readings_of_runs(scores)), OF_RUNS)
    repeated = repeated_table(section.repeated_summary)
    first = [wanted, suspects, by_load, repeated, *group_tables(scores)]
    worst, missing = worst_table(scores), missing_tables(section.missing)
    functions = [("Functions", [function_table(ledger) for ledger in found])]
    return Shown(
        title=f"Without noise: {section.name}",
        heading=heading_of(f"without noise: {section.name}", section.provenance),
        text=_TEXT,
        name=section.name,
        first=first,
        tables=[worst, *map(ledger_table, found), *missing],
        folded=[
            ("Every point", point_tables(scores)),
            ("With other arrivals", [repeated_point_table(section.repeated)]),
            ("Counts", count_tables(scores)),
            *(functions if found else []),
        ],
        brief=[suspects, wanted, by_load, repeated, worst_runs_table(scores)],
        screen=[*first, worst, *([ledger_summary(found)] if found else []), *missing],
        figures=lambda: {
            f"noise_free_{name}": DrawnFigure(figure, CAPTIONS[name])
            for name, figure in noise_free_figures(scores, found).items()
        },
        notices=section.provenance.notices,
        facts=facts_of(section.provenance),
    )


def _baselines_of(
    records: Sequence[RunRecord], fitted: Sequence[RunRecord], profile: Profile
) -> dict[Point, dict[str, Baseline]]:
    """Return the results of the formulae; processor sharing uses its mechanism's fit point."""
    cost_ns = {
        run.point.server.mechanism: measured_figures(run).cpu_ns_per_request
        for run in fitted
        if run.accepted
    }
    answers = {}
    for point in dict.fromkeys(record.point for record in records):
        costs = profile.costs(
            point.server.mechanism, open_connections=open_connections(point), free_clients=True
        )
        known_ns = cost_ns.get(point.server.mechanism)
        answers[point] = baselines(point, costs, profile.network_delay_ns, known_ns)
    return answers
