"""`measure server`: a server that is not ours, as a black box.

options ──► ServerPlan ──► runs.jsonl, calls.jsonl ──► a table, and what was recognised
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ..calibration.points.point import point_at
from ..calibration.running.preparation import check_mechanisms
from ..scenario.errors import UserError
from ..scenario.quantities import RATE
from ..sim.files.tables import rich_table
from .door import keeping, notes, people
from .help_page import RARE, example_of
from .machine import LOOPBACK, NAMESPACES, RESUMED, WHERE_CLIENTS_RUN, closeness_of
from .observed import recognised_sentences, runs_table
from .options import grouped
from .working import conclude, quantity

if TYPE_CHECKING:
    from ..calibration.observed.measuring_server import ServerPlan
    from ..calibration.observed.observed_run import ObservedServer
    from ..calibration.points.point import Point
    from ..calibration.testbed.testbed import Steering

_LIST_MAX = 20
_COUNT_MAX = 1_000_000
_IDLE_MAX = 65_535
"""Idle connections of one client address: each has a port."""


class ProtocolChoice(StrEnum):
    """The protocol of the requests."""

    HTTP_1_0 = "http/1.0"
    HTTP_1_1 = "http/1.1"
    MEMCACHED = "memcached"
    RESP = "resp"


class DriverChoice(StrEnum):
    """The load generator."""

    OWN = "own"
    HTTPERF = "httperf"
    WRK = "wrk"


class TracerChoice(StrEnum):
    """The tool that counts system calls."""

    BPFTRACE = "bpftrace"
    STRACE = "strace"
    NONE = "none"


class ShareChoice(StrEnum):
    """What workers share."""

    ACCEPT_QUEUE = "accept queue"
    NOTHING = "nothing"
    HANDED_OVER = "handed over"


class WakeChoice(StrEnum):
    """Which workers a connection wakes."""

    ALL = "all"
    ONE = "one"


class SteeringChoice(StrEnum):
    """Where a server and its clients run."""

    NAMESPACES = "namespaces"
    LOOPBACK = "loopback"


@dataclass(frozen=True, kw_only=True)
class Reached:
    """Which server is measured, and its address."""

    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="TCP port of the server. Required.")
    ] = None
    pid: Annotated[
        int | None,
        typer.Option(min=1, help="Measure this running process instead of starting CMD."),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the process of --pid. Default: 127.0.0.1.", rich_help_panel=RARE
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """The protocol and its requests."""

    protocol: Annotated[
        ProtocolChoice, typer.Option(help="Protocol of the requests; HTTP sends only GET.")
    ] = ProtocolChoice.HTTP_1_1
    path: Annotated[str, typer.Option(help="Path of HTTP requests.")] = "/"
    host: Annotated[
        str, typer.Option(help="Host header of HTTP requests.", rich_help_panel=RARE)
    ] = "localhost"
    key_prefix: Annotated[
        str,
        typer.Option(help="Prefix of the keys stored and requested.", rich_help_panel=RARE),
    ] = "dispatchsim:"
    keys: Annotated[
        int,
        typer.Option(min=1, max=_COUNT_MAX, help="Number of keys.", rich_help_panel=RARE),
    ] = 1000
    value_bytes: Annotated[
        int,
        typer.Option(min=0, max=_COUNT_MAX, help="Length of a value.", rich_help_panel=RARE),
    ] = 100


@dataclass(frozen=True, kw_only=True)
class Loads:
    """The loads of the runs."""

    users: Annotated[
        str | None,
        typer.Option(
            help="Numbers of closed-loop clients, separated by commas. Default: 64, unless --rate "
            "is given."
        ),
    ] = None
    rate: Annotated[
        list[str] | None,
        typer.Option(help="Connection rate of an open loop, such as 2000/s. Repeatable."),
    ] = None
    requests: Annotated[
        str, typer.Option(help="Numbers of requests per connection, separated by commas.")
    ] = "1,1000"
    idle: Annotated[
        str,
        typer.Option(help="Numbers of further connections that stay idle, separated by commas."),
    ] = "0"


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The server's environment, the load generator and the tracer."""

    environment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Set a variable in the server's environment. Repeatable.",
            rich_help_panel=RARE,
        ),
    ] = None
    driver: Annotated[
        DriverChoice,
        typer.Option(
            help="Load generator. own: that of dispatchsim.",
            rich_help_panel=RARE,
        ),
    ] = DriverChoice.OWN
    tracer: Annotated[
        TracerChoice | None,
        typer.Option(
            help="Tool that counts system calls, in a separate run. Default: the first that is "
            "installed and permitted.",
            rich_help_panel=RARE,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Said:
    """The server's habits; those that are not given are detected."""

    mechanism: Annotated[
        str | None, typer.Option(help="Dispatch mechanism of the server. Default: detected.")
    ] = None
    accept_limit: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Connections that it accepts per event; 0: all that wait.",
            rich_help_panel=RARE,
        ),
    ] = None
    reads_after_accept: Annotated[
        bool | None,
        typer.Option(
            "--reads-after-accept/--waits-after-accept",
            help="Whether it reads from a new connection before it waits again.",
            rich_help_panel=RARE,
        ),
    ] = None
    closes_first: Annotated[
        bool | None,
        typer.Option(
            "--closes-first/--closes-last",
            help="Whether it closes connections before its clients do.",
            rich_help_panel=RARE,
        ),
    ] = None
    server_workers: Annotated[
        int | None, typer.Option(min=1, help="Number of its event loops.", rich_help_panel=RARE)
    ] = None
    share: Annotated[
        ShareChoice | None,
        typer.Option(
            help="What its workers share. accept queue: one for all. nothing: each worker has its "
            "own accept queue. handed over: another thread accepts, and hands each connection to a "
            "worker.",
            rich_help_panel=RARE,
        ),
    ] = None
    wake: Annotated[
        WakeChoice | None,
        typer.Option(help="Which workers a new connection wakes.", rich_help_panel=RARE),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """How often and how long it is measured, and where results are written."""

    output: Annotated[
        Path | None,
        typer.Option(help=f"Folder for the results. {RESUMED} Default: measured/SERVER."),
    ] = None
    minutes: Annotated[float, typer.Option(min=1, help="Begin no run after this many minutes.")] = (
        90.0
    )
    within: Annotated[
        str,
        typer.Option(
            help="Repeat a load, three times or more, until the 95% intervals of request rate "
            "and CPU are this narrow. With 0, always repeat it --repeats times.",
        ),
    ] = "3%"
    repeats: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Maximum runs of a load. Default: 10.")
    ] = None
    steering: Annotated[
        SteeringChoice | None,
        typer.Option(help=f"{WHERE_CLIENTS_RUN} {NAMESPACES} {LOOPBACK}"),
    ] = None
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Measure even on a noisy machine, and at loads beyond the load generator's limit.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """All options of a server."""

    reached: Reached
    spoken: Spoken
    loads: Loads
    campaign: Campaign
    said: Said
    tools: Tools


@grouped
def measure_server(
    command: Annotated[
        str | None,
        typer.Argument(
            metavar="CMD",
            help="Command that starts the server in the foreground. Write {address} in place of "
            "the address to listen on: dispatchsim fills it in.",
        ),
    ] = None,
    *,
    options: ServerOptions,
) -> None:
    """Measure a server of your own as a black box.

    dispatchsim measure server "nginx -g 'daemon off;'" --port 80

    The server needs no change. The measurement takes minutes. A separate run counts its system
    calls, to detect how it waits and accepts.
    """
    from ..calibration.measure.campaign_progress import campaign_bar
    from ..calibration.observed.measuring_server import measure_server as measure
    from ..calibration.observed.operating_point import counted

    campaign = options.campaign
    where = None if campaign.steering is None else campaign.steering.value
    steering = cast("Steering | None", where)
    plan = _plan(command, options, closeness_of(campaign.within))
    if plan.pid and steering is not None:
        raise UserError(f"--steering: must be absent with --pid, got {steering}")
    folder = campaign.output or Path("measured") / _name(plan)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--output: must be a folder, got the file {folder}")
    with keeping(folder), campaign_bar(notes()) as progress:
        measured = measure(plan, folder, steering=steering, progress=progress)
    if measured.runs:
        people().print(rich_table(runs_table(measured.runs)))
        for doubt in counted([(run, doubt) for run in measured.runs for doubt in run.doubts]):
            notes().print(doubt, style="yellow", markup=False, soft_wrap=True)
    for sentence in recognised_sentences(measured.counted):
        people().print(sentence, markup=False)
    conclude(measured.summary, folder)


def _plan(command: str | None, options: ServerOptions, within: float | None) -> ServerPlan:
    from ..calibration.observed.measuring_server import ROUNDS_MOST, ServerPlan
    from ..calibration.observed.observing import Asking

    reached, spoken = options.reached, options.spoken
    if (command is None) == (reached.pid is None):
        given = "neither" if command is None else "both"
        raise UserError(f"CMD: either CMD or --pid must be given, got {given}")
    if reached.port is None:
        raise UserError(
            f"--port: must be given, as in `{example_of(measure_server.__doc__ or '')}`"
        )
    if reached.address is not None and reached.pid is None:
        raise UserError(
            "--address: must be absent without --pid; CMD listens on {address} in its words"
        )
    if options.tools.environment and reached.pid is not None:
        raise UserError("--environment: must be absent with --pid: the process has its own")
    _check_command(command)
    asking = Asking(
        protocol=spoken.protocol.value,
        path=spoken.path,
        host=spoken.host,
        key_prefix=spoken.key_prefix,
        keys=spoken.keys,
    )
    return ServerPlan(
        command=command or "",
        pid=reached.pid or 0,
        port=reached.port,
        address=reached.address or "127.0.0.1",
        asking=asking,
        value_bytes=spoken.value_bytes,
        loads=tuple(_loads(options.loads)),
        repeats=options.campaign.repeats or ROUNDS_MOST,
        within=within,
        budget_s=options.campaign.minutes * 60,
        anyway=options.campaign.anyway,
        driver=options.tools.driver.value,
        tracer=str(options.tools.tracer or ""),
        environment=_environment(options.tools.environment or ()),
        said=_said(options.said),
    )


def _check_command(command: str | None) -> None:
    import shlex

    if command is None:
        return
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"CMD: must be a command line ({error}), got {command}") from None
    if not words:
        raise UserError("CMD: must name a program, got nothing")


def _loads(loads: Loads) -> list[Point]:
    rates = [float(quantity("--rate", RATE.parse, rate)) for rate in loads.rate or ()]
    n_users = "64" if loads.users is None and not rates else loads.users
    users = [] if n_users is None else _counts("--users", n_users, least=1)
    requests = _counts("--requests", loads.requests, least=1)
    found = []
    for idle in _counts("--idle", loads.idle, least=0, most=_IDLE_MAX):
        for n_requests in requests:
            # The mechanism names our own server; here nothing reads it.
            usual: dict[str, Any] = {"mechanism": "epoll_level", "idle": idle}
            usual["requests"] = n_requests
            found += [point_at(**usual, users=n) for n in users]
            found += [point_at(**usual, loop="open", rate_per_s=rate) for rate in rates]
    return found


def _counts(option: str, text: str, *, least: int, most: int = _COUNT_MAX) -> list[int]:
    """Return the whole numbers in *text*, separated by commas."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not (word.isascii() and word.isdigit() and least <= int(word[:9]) <= most):
            raise UserError(
                f"{option}: must be whole numbers from {least} to {most}, separated by "
                f'commas, got "{text}"'
            )
    numbers = list(dict.fromkeys(int(word) for word in words))
    if len(numbers) > _LIST_MAX:
        raise UserError(f"{option}: must be at most {_LIST_MAX} numbers, got {len(numbers)}")
    return numbers


def _environment(settings: Sequence[str]) -> dict[str, str]:
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise UserError(f'--environment: must be NAME=VALUE, got "{setting}"')
        found[name] = value
    return found


def _said(said: Said) -> ObservedServer:
    from ..calibration.observed.observed_run import ObservedServer

    mechanism = said.mechanism
    if mechanism is not None:
        (mechanism,) = check_mechanisms([mechanism], "--mechanism")
    return ObservedServer(
        mechanism=mechanism,
        accept_limit=said.accept_limit,
        reads_after_accept=said.reads_after_accept,
        closes_first=said.closes_first,
        workers=said.server_workers,
        share=None if said.share is None else said.share.value,
        wake=None if said.wake is None else said.wake.value,
    )


def _name(plan: ServerPlan) -> str:
    """Return the name of the folder of a server."""
    import shlex

    return Path(shlex.split(plan.command)[0]).name if plan.command else f"process-{plan.pid}"
