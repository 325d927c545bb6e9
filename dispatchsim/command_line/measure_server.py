"""`measure --server` and `measure --pid`: somebody else's server as a black box.

options ──► ServerPlan ──► runs.jsonl, calls.jsonl ──► a table, and what was recognised
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..calibration.points.point import point_at
from ..calibration.running.preparation import check_mechanisms
from ..scenario.errors import UserError
from ..scenario.quantities import RATE
from ..sim.files.tables import rich_table
from .door import keeping, notes, people
from .observed import recognised_sentences, runs_table
from .options import options_given
from .working import conclude, quantity

if TYPE_CHECKING:
    from ..calibration.observed.measuring_server import ServerPlan
    from ..calibration.observed.observed_run import ObservedServer
    from ..calibration.points.point import Point
    from ..calibration.testbed.testbed import Steering

_LIST_MAX = 20
_COUNT_MAX = 1_000_000
_IDLE_MAX = 65_535
"""Of one address; each has a port."""


class ProtocolChoice(StrEnum):
    """What is spoken."""

    HTTP_1_0 = "http/1.0"
    HTTP_1_1 = "http/1.1"
    MEMCACHED = "memcached"
    RESP = "resp"


class DriverChoice(StrEnum):
    """Who asks."""

    OWN = "own"
    HTTPERF = "httperf"
    WRK = "wrk"


class TracerChoice(StrEnum):
    """Who counts system calls."""

    BPFTRACE = "bpftrace"
    STRACE = "strace"
    NONE = "none"


class ShareChoice(StrEnum):
    """What workers share."""

    ACCEPT_QUEUE = "accept queue"
    NOTHING = "nothing"
    HANDED_OVER = "handed over"


class WakeChoice(StrEnum):
    """Whom a connection wakes."""

    ALL = "all"
    ONE = "one"


@dataclass(frozen=True, kw_only=True)
class Reached:
    """Which server is measured, and where it is reached."""

    server: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="Measure this server instead of the machine: the command starts it in the "
            "foreground, {address} in it is where it shall listen. With --port.",
        ),
    ] = None
    pid: Annotated[
        int | None,
        typer.Option(
            min=1, help="Measure this process instead: a server that runs, where it runs."
        ),
    ] = None
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Where the server listens (TCP).")
    ] = None
    address: Annotated[
        str | None, typer.Option(help="Where the server of --pid listens; 127.0.0.1 if absent.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """What is spoken with it, and what is asked."""

    protocol: Annotated[
        ProtocolChoice | None,
        typer.Option(help="What the server speaks; http/1.1 if absent. Only GETs are asked."),
    ] = None
    path: Annotated[str | None, typer.Option(help="What http asks for; / if absent.")] = None
    host: Annotated[str | None, typer.Option(help="Whom http asks; localhost if absent.")] = None
    key_prefix: Annotated[
        str | None,
        typer.Option(help="Begin of the keys that are set and asked for; dispatchsim: ."),
    ] = None
    keys: Annotated[
        int | None, typer.Option(min=1, max=_COUNT_MAX, help="How many keys; 1000 if absent.")
    ] = None
    value_bytes: Annotated[
        int | None,
        typer.Option(min=0, max=_COUNT_MAX, help="Length of their values; 100 if absent."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Loads:
    """Which loads it has."""

    users: Annotated[
        str | None,
        typer.Option(
            help="Users of closed loops, separated by commas; 64 if absent, without --rate."
        ),
    ] = None
    requests: Annotated[
        str | None,
        typer.Option(help="Requests of a connection, separated by commas; 1,1000 if absent."),
    ] = None
    idle: Annotated[
        str | None, typer.Option(help="Idle connections beside, separated by commas; 0 if absent.")
    ] = None
    rate: Annotated[
        list[str] | None,
        typer.Option(help="Connections of an open loop: 2000/s. Again for another."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What its environment is, and by what it is asked and watched."""

    environment: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="For the server's environment. Again for another."),
    ] = None
    driver: Annotated[
        DriverChoice | None, typer.Option(help="Who asks: our load generator (own) if absent.")
    ] = None
    tracer: Annotated[
        TracerChoice | None,
        typer.Option(
            help="Who counts system calls, in a run apart; if absent, the first of these that is "
            "there and may look.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Said:
    """What its owner knows of it."""

    mechanism: Annotated[
        str | None, typer.Option(help="What the server waits with, if you know.")
    ] = None
    accept_limit: Annotated[
        int | None,
        typer.Option(min=0, help="Connections that it accepts for one notice; 0: all there are."),
    ] = None
    reads_after_accept: Annotated[
        bool | None,
        typer.Option(
            "--reads-after-accept/--waits-after-accept",
            help="Whether it reads from a new connection before it waits again.",
        ),
    ] = None
    closes_first: Annotated[
        bool | None,
        typer.Option(
            "--closes-first/--closes-last", help="Whether it closes before its clients do."
        ),
    ] = None
    server_workers: Annotated[int | None, typer.Option(min=1, help="Its event loops.")] = None
    share: Annotated[ShareChoice | None, typer.Option(help="What its workers share.")] = None
    wake: Annotated[
        WakeChoice | None, typer.Option(help="Whom a new connection wakes of its workers.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The options that are of a server; None: not given."""

    reached: Reached
    spoken: Spoken
    loads: Loads
    tools: Tools
    said: Said

    @property
    def is_asked(self) -> bool:
        """Whether a server is to be measured.

        Raises
        ------
        UserError
            If there are options of a server and none is named.
        """
        if self.reached.server is not None or self.reached.pid is not None:
            return True
        for option in options_given(self):
            raise UserError(f"{option}: is of a server, and needs --server or --pid")
        return False


def measure_black_box(
    options: ServerOptions,
    output: Path | None,
    repeats: int | None,
    steering: Steering | None,
    *,
    minutes: float,
    within: float | None,
    anyway: bool,
) -> None:
    """Measure a server, then show its runs and what was recognised of it."""
    from ..calibration.measure.campaign_progress import campaign_bar
    from ..calibration.observed.measuring_server import measure_server
    from ..calibration.observed.operating_point import counted

    plan = _plan(options, repeats, minutes=minutes, within=within, anyway=anyway)
    if plan.pid and steering is not None:
        raise UserError(f"--steering: must be absent with --pid, got {steering}")
    folder = output or Path("measured") / _name(plan)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--output: must be a folder, got the file {folder}")
    with keeping(folder), campaign_bar(notes()) as progress:
        measured = measure_server(plan, folder, steering=steering, progress=progress)
    if measured.runs:
        people().print(rich_table(runs_table(measured.runs)))
        for doubt in counted([(run, doubt) for run in measured.runs for doubt in run.doubts]):
            notes().print(doubt, style="yellow", markup=False, soft_wrap=True)
    for sentence in recognised_sentences(measured.counted):
        people().print(sentence, markup=False)
    conclude(measured.summary, folder)


def _plan(
    options: ServerOptions,
    repeats: int | None,
    *,
    minutes: float,
    within: float | None,
    anyway: bool,
) -> ServerPlan:
    from ..calibration.observed.measuring_server import ROUNDS_MOST, ServerPlan
    from ..calibration.observed.observing import Asking

    if options.reached.server is not None and options.reached.pid is not None:
        raise UserError("--pid: must be absent with --server: the server is started or is there")
    if options.reached.port is None:
        raise UserError("--port: must be given with --server and --pid")
    if options.reached.address is not None and options.reached.pid is None:
        raise UserError("--address: is of --pid; --server listens on {address} in its command")
    if options.tools.environment and options.reached.pid is not None:
        raise UserError("--environment: must be absent with --pid: the process has its own")
    _check_command(options.reached.server)
    asking = Asking(
        protocol=str(options.spoken.protocol or ProtocolChoice.HTTP_1_1),
        path=options.spoken.path or "/",
        host=options.spoken.host or "localhost",
        key_prefix=options.spoken.key_prefix or "dispatchsim:",
        keys=options.spoken.keys or 1000,
    )
    return ServerPlan(
        command=options.reached.server or "",
        pid=options.reached.pid or 0,
        port=options.reached.port,
        address=options.reached.address or "127.0.0.1",
        asking=asking,
        value_bytes=100 if options.spoken.value_bytes is None else options.spoken.value_bytes,
        loads=tuple(_loads(options)),
        repeats=repeats or ROUNDS_MOST,
        within=within,
        budget_s=minutes * 60,
        anyway=anyway,
        driver=str(options.tools.driver or DriverChoice.OWN),
        tracer=str(options.tools.tracer or ""),
        environment=_environment(options.tools.environment or ()),
        said=_said(options),
    )


def _check_command(command: str | None) -> None:
    import shlex

    if command is None:
        return
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"--server: is no command line ({error}), got {command}") from None
    if not words:
        raise UserError("--server: must name a program, got nothing")


def _loads(options: ServerOptions) -> list[Point]:

    rates = [float(quantity("--rate", RATE.parse, rate)) for rate in options.loads.rate or ()]
    users = _counts("--users", options.loads.users, [] if rates else [64], least=1)
    requests = _counts("--requests", options.loads.requests, [1, 1000], least=1)
    found = []
    for idle in _counts("--idle", options.loads.idle, [0], least=0, most=_IDLE_MAX):
        for n_requests in requests:
            # The mechanism is a name for our own server, and is not looked at.
            usual: dict[str, Any] = {"mechanism": "epoll_level", "idle": idle}
            usual["requests"] = n_requests
            found += [point_at(**usual, users=n) for n in users]
            found += [point_at(**usual, loop="open", rate_per_s=rate) for rate in rates]
    return found


def _counts(
    option: str, text: str | None, otherwise: list[int], *, least: int, most: int = _COUNT_MAX
) -> list[int]:
    """Return the whole numbers in *text*, separated by commas."""
    if text is None:
        return otherwise
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


def _said(options: ServerOptions) -> ObservedServer:
    from ..calibration.observed.observed_run import ObservedServer

    mechanism = options.said.mechanism
    if mechanism is not None:
        (mechanism,) = check_mechanisms([mechanism], "--mechanism")
    return ObservedServer(
        mechanism=mechanism,
        accept_limit=options.said.accept_limit,
        reads_after_accept=options.said.reads_after_accept,
        closes_first=options.said.closes_first,
        workers=options.said.server_workers,
        share=None if options.said.share is None else options.said.share.value,
        wake=None if options.said.wake is None else options.said.wake.value,
    )


def _name(plan: ServerPlan) -> str:
    """Return the name of the folder of a server."""
    import shlex

    return Path(shlex.split(plan.command)[0]).name if plan.command else f"process-{plan.pid}"
