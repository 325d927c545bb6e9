"""Options and arguments that several commands have, each said once, and those that go together.

A command takes options that go together as one parameter, whose class names them:

    @grouped
    def sweep(scenario: ScenarioName, *, vary: Vary = None, place: Place, kept: Kept) -> None

    dispatchsim sweep SCENARIO --vary ... --workers 2 --no-store
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import OptionInfo

from ..scenario.errors import UserError


class EngineChoice(StrEnum):
    """What simulates."""

    AUTO = "auto"
    FAST = "fast"
    REFERENCE = "reference"


ScenarioName = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A TOML file, or the name of an example.")
]
ProfileName = Annotated[
    str | None, typer.Option("--profile", help="A shipped profile or a file, not the scenario's.")
]
MechanismName = Annotated[
    str | None, typer.Option("--mechanism", help="Another than the scenario's server.mechanism.")
]
Draws = Annotated[
    int,
    typer.Option(min=0, max=10_000, help="Runs at costs drawn from what calibration leaves open."),
]
Replications = Annotated[
    int | None,
    typer.Option(min=1, max=1000, help="Runs with other arrivals, not run.replications of them."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="How many runs are simulated at once. If absent, as many as there are CPUs; run and "
        "compare take one where the reference engine ends sooner than processes start. "
        "Not the workers of the simulated server, which are the scenario's server.workers.",
    ),
]
EngineName = Annotated[
    EngineChoice | None,
    typer.Option(
        "--engine",
        help="fast (compiled), reference (SimPy, some 200 times slower) or auto: fast where "
        "it can be. The figures are the same. If absent, what the scenario says.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print warnings whole, not a line each.")]
Output = Annotated[
    Path | None, typer.Option(help="A new folder that keeps each run as it finishes, as JSON.")
]

# Of studies

Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="FIELD=VALUES",
        help="A field of the scenario and its values: load.rate=1000/s,2000/s or "
        "load.rate=1000/s..8000/s:8 (eight, evenly spaced; :8log, evenly by factors). Again for "
        "another field.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Another value than the scenario's: load.rate=5000/s; load.timeout= for the default. "
        "Again for another field.",
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(
        min=1, help="Points of a Latin hypercube instead of all combinations; FIELD=LOW..HIGH."
    ),
]
StoreFolder = Annotated[
    Path,
    typer.Option("--store", help="Folder that keeps every run, and from which none is run twice."),
]
NoStore = Annotated[bool, typer.Option("--no-store", help="Keep nothing.")]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="ADDRESS", help="A Dask scheduler to hand runs to, tcp://HOST:PORT."
    ),
]
Plot = Annotated[
    Path | None, typer.Option(help="A file for the picture of the answer: .png, .svg or .pdf.")
]
Answer = Annotated[Path | None, typer.Option("--output", help="A JSON file for the answer.")]
Clock = Annotated[
    float | None,
    typer.Option(help="What if the CPU's clock were so many times as fast, such as 1.5?"),
]
Crossing = Annotated[
    str | None,
    typer.Option(
        help="What if the way into the kernel and back took so long, such as '300 ns'? "
        "Mitigations make it dearer."
    ),
]
Cpus = Annotated[int | None, typer.Option(help="What if the server had so many CPUs?")]
Link = Annotated[
    str | None, typer.Option(help="What if the link had this bandwidth, such as '1 Gbit/s'?")
]
Median = Annotated[str | None, typer.Option(help="The bound on the median response time.")]
NinetyPercent = Annotated[str | None, typer.Option(help="On the 90th percentile.")]
NinetyFivePercent = Annotated[str | None, typer.Option(help="On the 95th percentile.")]
NinetyNinePercent = Annotated[
    str | None,
    typer.Option(
        help='On p99, such as "50 ms"; failed requests count as never answered, in each percentile.'
    ),
]
ThreeNines = Annotated[str | None, typer.Option("--p99.9", help="On the 99.9th percentile.")]
FigureName = Annotated[
    str,
    typer.Option(
        "--figure",
        help="The metric of each run: p99_ns (failed requests count as never answered), p97_5_ns, "
        "p50_answered_ns, throughput_per_s, cpu_busy, failed_share, waits_per_reply ...",
    ),
]
Within = Annotated[
    str | None,
    typer.Option(
        help="Add replications until the 95 % interval of the figure is that narrow: '10%'."
    ),
]
STORE = Path("dispatchsim-results")
"""Where studies keep their runs if nothing else is asked for."""

# Options that go together


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is other than the scenario says."""

    settings: Settings = None
    mechanism: MechanismName = None
    profile: ProfileName = None


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What if the machine were another."""

    clock: Clock = None
    crossing: Crossing = None
    cpus: Cpus = None
    link: Link = None


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds on percentiles of the response time; all that are given must be kept."""

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
    """What an answer is delivered as, beside or instead of the table."""

    plot: Plot = None
    output: Answer = None
    as_json: AsJson = False
    verbose: Verbose = False


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is asked of a scenario, and where it is worked out."""

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


def options_given(group: Any) -> list[str]:
    """Return the names of the options of *group*, and of the groups in it, that were given."""
    found: list[str] = []
    hints = get_type_hints(type(group), include_extras=True)
    for field in fields(group):
        value = getattr(group, field.name)
        if is_dataclass(hints[field.name]):
            found += options_given(value)
        elif value is not field.default and value != []:
            found.append(_option_name(field.name, hints[field.name]))
    return found


def _option_name(name: str, hint: Any) -> str:
    (info,) = (each for each in hint.__metadata__ if isinstance(each, OptionInfo))
    declared = info.param_decls or (f"--{name.replace('_', '-')}",)
    return str(declared[0]).partition("/")[0]


def check_absent(options: Sequence[str], where: str) -> None:
    """Refuse the first of *options*: none may be given there.

    Raises
    ------
    UserError
        If there is one.
    """
    if options:
        raise UserError(f"{options[0]}: must be absent {where}")
