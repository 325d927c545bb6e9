"""Options and arguments that several commands have, each declared once, and groups of them.

A command takes options that go together as one parameter, whose class names them:

    @grouped
    def sweep(scenario: ScenarioName, *, vary: Vary = None, place: Place, kept: Kept) -> None

    dispatchsim sweep SCENARIO --vary ... --workers 2 --no-store
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from .help_page import RARE


class EngineChoice(StrEnum):
    """Which engine simulates."""

    AUTO = "auto"
    FAST = "fast"
    REFERENCE = "reference"


ScenarioName = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A TOML file, or the name of an example.")
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="PROFILE",
        help="Take the costs of this shipped profile or file, not the scenario's.",
    ),
]
MechanismName = Annotated[
    str | None,
    typer.Option(
        "--mechanism", metavar="NAME", help="Take this mechanism instead of server.mechanism."
    ),
]
CostSamples = Annotated[
    int,
    typer.Option(
        "--cost-samples",
        min=0,
        max=10_000,
        help="Number of extra runs, each with random costs from their measured intervals.",
    ),
]
Replications = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        help="Number of runs, each with its own arrivals. Default: run.replications.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="Number of runs simulated at once. Default: the number of CPUs, or 1 for short runs "
        "on the reference engine. The simulated server's workers are server.workers.",
        rich_help_panel=RARE,
    ),
]
EngineName = Annotated[
    EngineChoice | None,
    typer.Option(
        "--engine",
        help="fast (compiled), reference (SimPy, 200 times slower, the same results) or auto "
        "(fast if possible). Default: run.engine.",
        rich_help_panel=RARE,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        help="Print warnings in full, not at most two lines each.",
        rich_help_panel=RARE,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(help="Also write each run as JSON to this new folder."),
]

# Options of studies

Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="FIELD=VALUES",
        help="Vary a field: load.rate=1000/s,2000/s, or load.rate=1000/s..8000/s:8 for eight "
        "evenly spaced values; end with :8log for logarithmic spacing. Repeatable.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Set a field, such as load.rate=5000/s. Without a value (load.timeout=) it gets its "
        "default. Repeatable.",
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Simulate only N random combinations, spread evenly (a Latin hypercube). Give ranges "
        "without a count: --vary load.rate=1000/s..8000/s.",
    ),
]
StoreFolder = Annotated[
    Path,
    typer.Option(
        "--store", help="Folder for stored runs. A run that it holds is not simulated again."
    ),
]
NoStore = Annotated[bool, typer.Option("--no-store", help="Keep no runs.", rich_help_panel=RARE)]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Simulate on the cluster of this Dask scheduler, tcp://HOST:PORT.",
        rich_help_panel=RARE,
    ),
]
Plot = Annotated[
    Path | None, typer.Option(help="Plot the answer to this file: .png, .svg or .pdf.")
]
Answer = Annotated[
    Path | None, typer.Option("--output", help="Write the answer to this JSON file.")
]
Clock = Annotated[
    float | None,
    typer.Option(
        metavar="FACTOR",
        help="What if the CPU's clock were faster by this factor?",
        rich_help_panel=RARE,
    ),
]
Crossing = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="What if entering and leaving the kernel took this long, such as '300 ns'? "
        "Mitigations raise it.",
        rich_help_panel=RARE,
    ),
]
Cpus = Annotated[
    int | None,
    typer.Option(help="What if the server had this many CPUs?", rich_help_panel=RARE),
]
Link = Annotated[
    str | None,
    typer.Option(
        metavar="BANDWIDTH",
        help="What if the link had this bandwidth, such as '1 Gbit/s'?",
        rich_help_panel=RARE,
    ),
]
Median = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="Bound on the median response time.", rich_help_panel=RARE
    ),
]
NinetyPercent = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Bound on the 90th percentile.", rich_help_panel=RARE),
]
NinetyFivePercent = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Bound on the 95th percentile.", rich_help_panel=RARE),
]
NinetyNinePercent = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help='Bound on the 99th percentile of the response time, such as "50 ms"; a failed request '
        "counts as infinitely late.",
    ),
]
ThreeNines = Annotated[
    str | None,
    typer.Option(
        "--p99.9", metavar="DURATION", help="Bound on the 99.9th percentile.", rich_help_panel=RARE
    ),
]
MetricName = Annotated[
    str,
    typer.Option(
        "--metric",
        metavar="METRIC",
        help="Metric of each run: p99_ns (failed requests count as infinitely late), "
        "p99_answered_ns (without failed requests), p97_5_ns, throughput_per_s, cpu_busy, "
        "failed_share, waits_per_reply ...",
    ),
]
Within = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Add replications until the metric's 95% interval is this narrow: '10%' is ±10% of "
        "the mean.",
    ),
]
STORE = Path("dispatchsim-results")
"""Where studies keep their runs by default."""

# Options that go together


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What replaces the scenario's own values."""

    settings: Settings = None
    mechanism: MechanismName = None
    profile: ProfileName = None


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Changes of the hardware."""

    clock: Clock = None
    crossing: Crossing = None
    cpus: Cpus = None
    link: Link = None


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds on percentiles of the response time; all that are given must be met."""

    p50: Median = None
    p90: NinetyPercent = None
    p95: NinetyFivePercent = None
    p99: NinetyNinePercent = None
    p99_9: ThreeNines = None

    @property
    def given(self) -> dict[str, str]:
        """The bounds by the names of their percentiles."""
        bounds = {each.name.replace("_", "."): getattr(self, each.name) for each in fields(self)}
        return {name: bound for name, bound in bounds.items() if bound is not None}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where runs are simulated."""

    workers: Workers = None
    cluster_address: ClusterAddress = None


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Where runs are kept."""

    store: StoreFolder = STORE
    no_store: NoStore = False

    @property
    def folder(self) -> Path | None:
        """The folder that keeps every run; None if none does."""
        return None if self.no_store else self.store


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How an answer is delivered, beside or instead of the table."""

    plot: Plot = None
    output: Answer = None
    as_json: AsJson = False
    verbose: Verbose = False


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is asked about a scenario, and where it is simulated."""

    changes: Changes
    hardware: Hardware
    engine: EngineName = None
    place: Place


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return *command* with the options of its groups as parameters, which Typer reads.

    A group is a parameter whose type is a dataclass: of options, or of further groups. Its options
    stand where the parameter stood, and are packed again when the command is called.
    """
    before = inspect.signature(command)

    @functools.wraps(command)
    def called(**given: Any) -> None:
        command(**_packed(command, given))

    called.__signature__ = before.replace(parameters=list(_spelled_out(command)))  # type: ignore[attr-defined]
    return called


def _spelled_out(thing: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(thing, include_extras=True)
    for name, parameter in inspect.signature(thing).parameters.items():
        if is_dataclass(hints[name]):
            yield from _spelled_out(hints[name])
        else:
            yield parameter.replace(annotation=hints[name])


def _packed(thing: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(thing)
    names = inspect.signature(thing).parameters
    return {
        name: hints[name](**_packed(hints[name], given))
        if is_dataclass(hints[name])
        else given[name]
        for name in names
    }
