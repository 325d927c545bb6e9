"""The laboratory's own measurements: real servers, kernels of our own, instructions by activity."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..calibration.points.point import point_at
from ..scenario.errors import UserError
from .door import compiling, keeping, notes, people, progress_bar
from .machine import RESUMED
from .options import AsJson
from .working import building, check_known, conclude

if TYPE_CHECKING:
    from ..calibration.measure.machine_campaigns import PointCampaign
    from ..calibration.points.point import Point
    from ..calibration.profiles.cost_profile import Profile
    from ..calibration.records.measured_runs import RunRecord
    from ..calibration.testbed.c_build import Programs
    from ..calibration.testbed.testbed import Testbed
    from ..sim.files.tables import Table

REPEATS, QUICK_REPEATS = 4, 1
BESIDE_REPEATS, BESIDE_WIDTH = 3, 120
FAR_END_WIDTH = 170
GAPS_WIDTH = 150
Servers = Annotated[
    list[str] | None, typer.Option("--server", help="Only this server. Repeatable.")
]


class Kind(StrEnum):
    """What is measured of the mechanisms that were never merged."""

    ALL = "all"
    MICRO = "micro"
    FIT = "fit"
    HELDOUT = "heldout"


def _server_names(given: Sequence[str] | None) -> list[str]:
    from ..validation.real_servers.plan import SERVERS

    names = list(dict.fromkeys(given or SERVERS))
    for name in names:
        check_known("--server", name, SERVERS)
    return names


Runs = Annotated[Path, typer.Argument(metavar="FOLDER", help=f"Folder for the results. {RESUMED}")]
OwnProfile = Annotated[str, typer.Option(help="This machine's profile: a shipped one or a file.")]
Repeats = Annotated[
    int,
    typer.Option(
        min=0,
        max=1000,
        help="Runs of each point (one server at one load). 0: compare existing runs.",
    ),
]
Anyway = Annotated[bool, typer.Option("--anyway", help="Measure even on a noisy machine.")]


def impatient(
    folder: Runs,
    *,
    profile: OwnProfile,
    repeats: Repeats = BESIDE_REPEATS,
    anyway: Anyway = False,
) -> None:
    """Measure clients that give up; compare the runs with simulations.

    dispatchsim lab impatient my-machine --profile my-machine.toml

    The server's application takes 20 us of CPU for each request. Each load is the forecast
    capacity of the server times a factor, such as 0.8.
    """
    from ..calibration.measure.machine_campaigns import IMPATIENT
    from ..validation.overload.impatient import compare, impatient_tables, points_of

    _beside_simulation(
        folder,
        profile,
        repeats,
        campaign=IMPATIENT,
        points_of=points_of,
        tables_of=lambda *found: impatient_tables(compare(*found)),
        anyway=anyway,
    )


def kept(
    folder: Runs,
    *,
    profile: OwnProfile,
    repeats: Repeats = BESIDE_REPEATS,
    anyway: Anyway = False,
) -> None:
    """Measure keep-alive connections; compare the runs with simulations.

    dispatchsim lab kept my-machine --profile my-machine.toml

    The application of each server takes 20 us of CPU for each request. Each load is the forecast
    capacity of the server times a factor, such as 0.8.
    """
    from ..calibration.measure.machine_campaigns import KEPT
    from ..validation.points.kept import compare, kept_tables, points_of

    _beside_simulation(
        folder,
        profile,
        repeats,
        campaign=KEPT,
        points_of=points_of,
        tables_of=lambda *found: kept_tables(compare(*found)),
        anyway=anyway,
    )


def _beside_simulation(
    folder: Path,
    profile: str,
    repeats: int,
    *,
    campaign: PointCampaign,
    points_of: Callable[[Profile], list[Point]],
    tables_of: Callable[
        [Sequence[RunRecord], Profile, Callable[[int, int], None]], Sequence[Table]
    ],
    anyway: bool,
) -> None:
    """Measure the points that *folder* lacks of *campaign*; print all runs beside simulations.

    Raises
    ------
    UserError
        If there is nothing to compare.
    """
    from rich.console import Console

    from ..calibration.measure.campaign_progress import campaign_bar
    from ..calibration.measure.machine_campaigns import run_point_campaign
    from ..calibration.profiles.choosing import find_profile_path
    from ..calibration.profiles.cost_profile import Profile
    from ..calibration.records.measured_runs import RunRecord, read_rows
    from ..calibration.running.compiling import Side, compile_engines
    from ..sim.files.tables import rich_table

    source = Profile.read(find_profile_path(profile))
    if repeats:
        points = points_of(source)
        names = list(dict.fromkeys(point.server.mechanism for point in points))
        with keeping(folder):
            compile_engines(names, source, side=Side.of_testbed(), telling=compiling)
            with campaign_bar(notes()) as bar:
                summary = run_point_campaign(
                    campaign, folder, points, repeats=repeats, anyway=anyway, progress=bar
                )
        conclude(summary, folder)
    path = folder / campaign.file
    runs = read_rows(path, RunRecord).rows
    if not runs:
        raise UserError(f"{path}: must hold runs, got none: --repeats above 0 measures them")
    with keeping(folder), progress_bar("simulating") as progress:
        tables = tables_of(runs, source, progress)
    console = Console(width=BESIDE_WIDTH, highlight=False, markup=False)
    for table in tables:
        console.print(rich_table(table))
        console.print()


def gaps(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Folder of a machine, to which results are added."),
    ],
    *,
    seconds: Annotated[
        float,
        typer.Option(min=0.1, max=60, help="Length of each measurement."),
    ] = 10.0,
) -> None:
    """Record the gaps in which the host takes the CPUs away.

    dispatchsim lab gaps my-machine

    Programs spin on the CPUs of server and client. Gaps are added to FOLDER/gaps.jsonl. The share
    of time in which another guest used the same core is added to FOLDER/neighbour.jsonl.
    `calibrate` copies the last entry of each file into the profile. A machine that is too noisy is
    an error, with exit code 2.
    """
    from rich.console import Console

    from ..calibration.measure.calm import measure_neighbours
    from ..calibration.measure.campaign import alone, interruptible, note_machine
    from ..calibration.measure.gaps import measure_gaps
    from ..calibration.records.gap_records import GAPS_FILE, gaps_table, noise_problem
    from ..calibration.records.measured_runs import append, drop_torn_line
    from ..calibration.records.neighbour_records import (
        NEIGHBOUR_FILE,
        busy_problem,
        neighbour_text,
    )
    from ..calibration.testbed.c_build import build
    from ..calibration.testbed.machine_facts import machine_facts
    from ..calibration.testbed.testbed import open_testbed
    from ..sim.files.tables import rich_table

    with keeping(folder), alone(), interruptible():
        note_machine(folder, ("id",), machine_facts())
        programs = build()
        with open_testbed() as testbed:
            if testbed.notice:
                notes().print(testbed.notice, markup=False)
            records = measure_gaps(
                testbed,
                programs,
                seconds=seconds,
                telling=lambda text: notes().print(f"spinning: {text}", markup=False),
            )
            notes().print("watching each core", markup=False)
            neighbours = measure_neighbours(testbed, programs, seconds=seconds)
        for name, rows in ((GAPS_FILE, records), (NEIGHBOUR_FILE, neighbours)):
            drop_torn_line(folder / name)
            append(folder / name, *rows)
    Console(width=GAPS_WIDTH, highlight=False, markup=False).print(rich_table(gaps_table(records)))
    if said := neighbour_text(neighbours):
        people().print(said, markup=False)
    if problem := noise_problem(records) or busy_problem(neighbours):
        raise UserError(problem)


def client_machine(
    *,
    rounds: Annotated[
        int,
        typer.Option(min=1, max=100, help="Number of runs of each kind of clients at equal loads."),
    ] = 6,
    highest: Annotated[
        float, typer.Option(min=2_000, max=200_000, help="Maximum connections per second.")
    ] = 200_000,
) -> None:
    """Compare two kinds of clients: sockets on this machine, and raw packets.

    dispatchsim lab client-machine

    Clients of the first kind ("load" in the tables) are sockets on this machine. Those of the
    second kind ("far_end") are imitated by a program that sends raw packets, as if from another
    machine. The command needs root. Each kind in turn sends requests to the same C server. The
    first table shows the highest load that each kind can offer. The second shows the CPU time of
    the server at equal loads. For clients of the first kind, this time includes a part of the
    clients' TCP work.
    """
    from ..calibration.measure.far_end_series import (
        PAIRED_RATES_PER_S,
        RATES_PER_S,
        measure_pairs,
        measure_series,
        pairs_table,
        series_table,
    )

    series, paired = (
        [rate for rate in rates if rate <= highest] for rates in (RATES_PER_S, PAIRED_RATES_PER_S)
    )
    with _packet_testbed() as (testbed, programs):
        runs = measure_series(testbed, programs, rates_per_s=series, progress=_telling)
        pairs = measure_pairs(
            testbed, programs, rounds=rounds, rates_per_s=paired, progress=_telling
        )
    _print_wide(series_table(runs), pairs_table(pairs))


def packet_times(
    *,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Number of rounds.")] = 3,
) -> None:
    """Test if packets and calls take as long in a server as in a microbenchmark.

    dispatchsim lab packet-times

    The command needs root and traces the kernel. Each round takes some 40 s. The first table
    compares a microbenchmark with servers. The servers are saturated, by 64 and by 256 users, or
    run at three lower loads, at which they are idle between requests. Each row is the kernel's work
    for a packet or a call. If it takes longer in a server, the microbenchmark's cost is too low.
    The second table needs no trace. It shows the CPU time for packets without calls, for calls
    without packets, and for both at once.
    """
    from ..calibration.measure.displacement import displacement_table, measure_displacement
    from ..calibration.measure.packet_times import measure_packet_times, packet_times_table

    with _packet_testbed() as (testbed, programs):
        beside = measure_displacement(testbed, programs, rounds=rounds, progress=_telling)
        times = measure_packet_times(testbed, programs, rounds=rounds, progress=_telling)
    _print_wide(packet_times_table(times), displacement_table(beside))


def late_resets(
    *,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Number of rounds.")] = 3,
) -> None:
    """Count the resets that clients send after the server has closed the connection.

    dispatchsim lab late-resets

    The command needs root. Each round takes some 30 s. Clients are imitated by a program that sends
    raw packets. A client ends its connection by a reset once it has the reply. If the server
    closes the connection before this reset arrives, its FIN is on the way already. The client
    replies to the FIN by a second reset, which interrupts the server once more.
    """
    from ..calibration.measure.late_resets import late_resets_table, measure_late_resets

    with _packet_testbed() as (testbed, programs):
        found = measure_late_resets(testbed, programs, rounds=rounds, progress=_telling)
    _print_wide(late_resets_table(found))


@contextlib.contextmanager
def _packet_testbed() -> Iterator[tuple[Testbed, Programs]]:
    """Yield a testbed with packet clients, and the programs; errors of runs are the user's."""
    from ..calibration.measure.campaign import alone, interruptible
    from ..calibration.testbed.c_build import build
    from ..calibration.testbed.processes import RunError
    from ..calibration.testbed.testbed import open_testbed

    programs = build()
    try:
        with alone(), interruptible(), open_testbed("far_end") as testbed:
            yield testbed, programs
    except RunError as error:
        raise UserError(str(error)) from None


def _telling(text: str) -> None:
    notes().print(text, markup=False)


def _print_wide(*tables: Table) -> None:
    """Print *tables* at a fixed width, each with an empty line behind it."""
    from rich.console import Console

    from ..sim.files.tables import rich_table

    console = Console(width=FAR_END_WIDTH, highlight=False, markup=False)
    for table in tables:
        console.print(rich_table(table))
        console.print()


def measure_servers(
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure a few points once: two minutes.")
    ] = False,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Runs of each point (one server at one load). Default: {REPEATS}, or 1 with "
            "--quick.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help=f"Folder for the results. {RESUMED}")
    ] = Path("real_servers"),
    server: Servers = None,
) -> None:
    """Measure real servers, such as nginx and Redis.

    dispatchsim lab measure-servers --quick --output real_servers

    Runs that the --output folder already holds are not repeated. A server that is not installed is
    left out.
    """
    from ..calibration.measure.campaign import alone, interruptible, note_machine
    from ..calibration.measure.campaign_progress import campaign_bar
    from ..calibration.measure.macro import Timing
    from ..calibration.observed.observing import Bench
    from ..calibration.testbed.c_build import build
    from ..calibration.testbed.machine_facts import machine_facts
    from ..calibration.testbed.processes import RunError
    from ..calibration.testbed.testbed import open_testbed
    from ..validation.real_servers.campaign import measure_cases, series_of, traced, why_absent
    from ..validation.real_servers.plan import SERVERS, cases_of

    names = _server_names(server)
    n_repeats = repeats or (QUICK_REPEATS if quick else REPEATS)
    timing = Timing(window_s=0.5, warm_up_accept_limited_s=0.5) if quick else Timing()
    programs = build()
    try:
        with keeping(output), alone(), interruptible(), open_testbed() as testbed:
            facts = {**machine_facts(), "steering": testbed.steering}
            note_machine(output, ("id", "steering"), facts)
            machine = str(facts["id"])
            bench = Bench(testbed, programs, series_of(machine, output), timing, machine)
            if testbed.notice:
                typer.echo(testbed.notice)
            for name in names:
                if absent := why_absent(SERVERS[name]):
                    typer.echo(f"{name} is left out: {absent}")
                    continue
                cases = cases_of(SERVERS[name], quick=quick)
                with campaign_bar() as progress:
                    summary = measure_cases(
                        output / name, cases, n_repeats, bench, trace=traced, progress=progress
                    )
                conclude(summary, output, name)
    except RunError as error:
        raise UserError(str(error)) from None


def report_servers(
    *,
    runs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Results of measure-servers. Default: the shipped ones."
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            help="The machine's profile. Default: the shipped profile of the machine of the runs."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for report.html and scores.json."),
    ] = None,
    server: Servers = None,
) -> None:
    """Fit real servers; compare their forecasts with measured runs.

    dispatchsim lab report-servers --server nginx
    """
    from ..validation.real_servers.report import MEASURED_FOLDER, report

    names = _server_names(server)
    folder = MEASURED_FOLDER if runs is None else runs
    if not folder.is_dir():
        raise UserError(f"--runs: must be a folder, got {folder}")
    report(folder, names, profile=profile, output=output)


def measure_unmerged(
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="micro: costs of calls. fit, heldout: whole runs. all: these three.",
        ),
    ] = Kind.ALL,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help=f"Folder for the results. {RESUMED} Default: measured/MACHINE.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Measure every tenth point (one server at one load)."),
    ] = False,
) -> None:
    """Measure the mechanisms that were never merged into Linux.

    dispatchsim lab measure-unmerged micro --quick

    The first call builds a kernel with these mechanisms, which takes minutes. Existing runs are not
    repeated.
    """
    from ..calibration.emulated.kernel_mechanisms.unmerged_target import ID, unmerged_target
    from ..calibration.measure.campaign import check_machine
    from ..calibration.measure.campaign_progress import campaign_bar
    from ..calibration.measure.machine_campaigns import run_campaign

    folder = output or Path("measured") / ID
    check_machine(folder, ID)
    with building() as bar:
        target = unmerged_target(bar)
    with keeping(folder), campaign_bar(notes()) as progress:
        summary = run_campaign(
            target,
            kind=kind.value,
            output=folder,
            quick=quick,
            progress=progress,
        )
    conclude(summary, folder)


def unmerged_tables(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", help="Results of measure-unmerged. Default: the shipped ones."
        ),
    ] = None,
) -> None:
    """Print the results of the mechanisms that Linux never merged.

    dispatchsim lab unmerged-tables
    """
    from ..calibration.emulated.kernel_mechanisms.unmerged_tables import SHIPPED, tables_of

    typer.echo(tables_of(folder or SHIPPED), nl=False)


def instructions(
    *,
    mechanism: Annotated[
        str, typer.Option(help="Dispatch mechanism of the server.")
    ] = "epoll_level",
    users: Annotated[int, typer.Option(help="Users of a closed loop. Give this or --rate.")] = 0,
    rate: Annotated[
        float, typer.Option(help="Connections per second of an open loop. Give this or --users.")
    ] = 0,
    idle: Annotated[int, typer.Option(help="Idle connections.")] = 0,
    think_ns: Annotated[int, typer.Option(help="Mean think time of a user.")] = 0,
    requests: Annotated[int, typer.Option(help="Requests per connection.")] = 1,
    backlog: Annotated[int, typer.Option(help="Backlog of the listener.")] = 4096,
    repeat: Annotated[
        int,
        typer.Option(help="Which run to take. The first is 0. Each run has other arrivals."),
    ] = 0,
    window_s: Annotated[float, typer.Option(help="Length of the window, in seconds.")] = 0.4,
    as_json: AsJson = False,
) -> None:
    """Count the CPU instructions at one load, by activity.

    dispatchsim lab instructions --mechanism epoll_level --users 64

    The instructions are counted in QEMU, on the emulated target.
    """
    from ..calibration.emulated.instructions.instruction_profile import (
        LENGTHS,
        profile_point,
        table_of,
    )
    from ..calibration.points.points import MECHANISMS
    from ..sim.state.units import SECOND_NS

    check_known("--mechanism", mechanism, MECHANISMS)
    if bool(users) == bool(rate):
        given = "both" if users else "neither"
        raise UserError(f"--users, --rate: must be one of them, got {given}")
    try:
        point = point_at(
            mechanism=mechanism,
            idle=idle,
            loop="closed" if users else "open",
            users=users,
            rate_per_s=rate,
            think_ns=think_ns,
            requests=requests,
            backlog=backlog,
        )
        lengths = LENGTHS._replace(window_ns=round(window_s * SECOND_NS))
        profile = profile_point(point, repeat, lengths=lengths)
    except ValueError as error:
        raise UserError(str(error)) from None
    typer.echo(json.dumps(profile.to_json(), indent=1) if as_json else table_of(profile))


def memory_costs(
    *,
    items: Annotated[
        int, typer.Option(min=100, max=20_000, help="Number of objects of each kind.")
    ] = 10_000,
    repetitions: Annotated[int, typer.Option(min=1, max=32, help="Repeats of each.")] = 5,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Store the costs in the --output folder. Without --output, store them as defaults "
            "of machine.socket_memory and eleven other keys. That needs a git checkout.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for linux-RELEASE.json, with --keep."),
    ] = None,
) -> None:
    """Measure the kernel memory of connections, waits, signals and threads.

    dispatchsim lab memory-costs

    The output ends with a section for a scenario file. The command takes about a minute. It needs
    root to exclude the memory of other programs.
    """
    from ..calibration.memory import prices as memory
    from ..calibration.records.kernel_files import is_checkout
    from ..sim.files.tables import rich_table

    if output is not None and not keep:
        raise UserError("--output: must be absent without --keep")
    if keep and output is None and not is_checkout(memory.FOLDER):
        raise UserError("--keep: needs --output FOLDER: an installed library keeps nothing itself")
    try:
        found = memory.ask(items, repetitions)
    except ValueError as error:
        raise UserError(f"Linux cannot be asked: {error}") from None
    people().print(rich_table(memory.prices_table(found)))
    if not os.access(memory.SLABINFO, os.R_OK):
        notes().print(
            f"{memory.SLABINFO} cannot be read (run this as root): these costs include memory that "
            "other programs took meanwhile",
            markup=False,
        )
    for name, price in found.items():
        if price.not_asked:
            notes().print(f"{name}: not asked: {price.not_asked}", markup=False)
    typer.echo(memory.keys_of_prices(found))
    if keep:
        folder = output or memory.FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        notes().print(f"kept in {memory.keep(found, items, repetitions, folder)}")


def period_profiles() -> None:
    """Write profiles of the old machines that `validate papers` simulates.

    dispatchsim lab period-profiles
    """
    from ..calibration.period.machine import write_profiles

    for path in write_profiles():
        typer.echo(str(path))


def bench(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Take less than a minute.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP",
            help="Only this group: speed, workers, queue, call, memory, compile, start or study. "
            "Repeatable.",
        ),
    ] = None,
    connections: Annotated[
        int | None,
        typer.Option(min=1000, help="Connections of a run on the fast engine. Default: 300,000."),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(min=1, help="Runs of each engine or program. Default: 7.")
    ] = None,
    idle: Annotated[
        list[int] | None, typer.Option(help="Number of idle connections. Repeatable.")
    ] = None,
    mechanism: Annotated[
        list[str] | None, typer.Option(help="Mechanism to time. Repeatable.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="PYTHON", help="Python interpreter of another checkout to compare with."
        ),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(help="File with costs. Default: the profile of your CPU.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write all measurements to this file."),
    ] = None,
) -> None:
    """Time the engines against hand-written C and other simulators.

    dispatchsim lab bench --quick
    """
    from ..models.catalogue import MECHANISMS
    from ..validation.benchmarks.benchmark import benchmark
    from ..validation.benchmarks.contestants import DisagreementError
    from ..validation.benchmarks.plan import plan_of
    from ..validation.benchmarks.processes import ChildError
    from ..validation.benchmarks.results import UNITS

    for name in only or ():
        check_known("--only", name, UNITS)
    for name in mechanism or ():
        check_known("--mechanism", name, MECHANISMS)
    plan = plan_of(
        quick=quick,
        only=only or (),
        connections=connections,
        repetitions=repetitions,
        idle=idle or (),
        mechanisms=mechanism or (),
        against=against,
        profile=profile,
        json=json_file,
    )
    try:
        status = benchmark(plan)
    except (ChildError, DisagreementError) as error:
        raise UserError(str(error)) from None
    if status:
        raise typer.Exit(status)


def viewers(
    *,
    viewers: Annotated[int, typer.Option(min=1, help="Number of simultaneous viewers.")] = 10,
    moves: Annotated[int, typer.Option(min=0, help="Slider moves per viewer.")] = 5,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of a page that is already served. Default: the command serves a page."
        ),
    ] = None,
) -> None:
    """Measure the response time of the what-if page.

    dispatchsim lab viewers --viewers 10
    """
    from ..what_if.viewers import report_of, waits_at, waits_served

    waits = waits_served(viewers, moves) if address is None else waits_at(address, viewers, moves)
    typer.echo(report_of(waits))
