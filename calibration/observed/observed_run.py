"""What was seen of one run of a server from outside, and how that server coped.

A run of our own servers knows everything (`measured_runs.RunRecord`); of somebody else's a tool
tells what it can, and the rest is absent: None or an empty dictionary, never a zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...sim.figures.summary import Verdict, verdict_of
from ...sim.figures.tally import progress_of_totals
from ...sim.state.units import SECOND_NS
from ..records.measured_runs import DataError, Gaps, Loaded, Noise, read_rows

Share = Literal["accept queue", "nothing", "handed over"]
"""What event loops have in common: one accept queue, or nothing (SO_REUSEPORT), or the first one,
which accepts and hands connections to the others."""
Wake = Literal["all", "one"]
"""Whom a new connection wakes of those that wait: all, or one (EPOLLEXCLUSIVE)."""
ErrorName = Literal["descriptors", "ports", "timeout", "refused", "reset", "dropped", "status"]
CLIENT_ERRORS: tuple[ErrorName, ...] = ("descriptors", "ports")
"""Errors of the load generator: of these the server has never heard."""
SERVER_ERRORS: tuple[ErrorName, ...] = ("timeout", "refused", "reset", "dropped", "status")
"""Errors that the server made, or that its overload did; `status`: it answered with an error."""

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Frozen):
    """Who says it: the tool, its file, when it was run and on which machine, as far as known."""

    tool: str
    file: str = ""
    date: str = ""
    machine: str = ""


class ObservedServer(_Frozen):
    """What is known of the server; of its habits (`habits.Habits`) None: nobody has looked."""

    name: str = ""
    command: str = ""
    protocol: str = ""
    mechanism: str | None = None
    accept_limit: Count | None = None
    reads_after_accept: bool | None = None
    closes_first: bool | None = None
    workers: Annotated[int, Field(ge=1)] | None = None
    share: Literal["accept queue", "nothing", "handed over"] | None = None
    wake: Literal["all", "one"] | None = None


class ObservedLoad(_Frozen):
    """What the clients did.

    Attributes
    ----------
    loop:
        Open: connections come at `rate_per_s` whatever the server does; closed: `users` of them
        (None: nobody tells how many), of which each waits for its reply.
    requests:
        Each connection makes so many; 0: as many as fit the run.
    idle:
        Connections that are open and silent besides; None: the tool does not tell.
    think_ns:
        The mean pause of a user of a closed loop between two requests; None: nobody tells.
    timeout_ns:
        When clients gave up; None: never, or nobody tells.
    asked:
        What for, in words; empty: nobody tells.
    """

    loop: Literal["open", "closed"]
    rate_per_s: Number | None = None
    users: Annotated[int, Field(ge=1)] | None = None
    requests: Count = 1
    idle: Count | None = None
    think_ns: Count | None = None
    timeout_ns: Annotated[int, Field(ge=1)] | None = None
    asked: str = ""
    request_bytes: Number | None = None
    reply_bytes: Number | None = None

    @model_validator(mode="after")
    def _has_its_size(self) -> ObservedLoad:
        if self.loop == "open" and self.rate_per_s is None:
            raise ValueError("an open loop has a rate_per_s")
        return self


class ObservedLatency(_Frozen):
    """Latencies in ns, over what was replied to.

    `since` says from when on: "intended" when the request was due, "connect" when its connection
    was begun, "sent" when it was sent. Quantiles are by their share: {"0.99": ...}.
    """

    since: Literal["intended", "connect", "sent"]
    quantiles: dict[str, Number] = {}
    mean: Number | None = None
    max: Number | None = None

    @model_validator(mode="after")
    def _in_order(self) -> ObservedLatency:
        known = sorted((float(share), value) for share, value in self.quantiles.items())
        if any(not 0 <= share <= 1 for share, _ in known):
            raise ValueError("quantiles are named by shares between 0 and 1")
        values = [value for _, value in known]
        if values != sorted(values):
            raise ValueError("a higher quantile cannot be below a lower one")
        return self


class ObservedRun(_Frozen):
    """One run as it was seen.

    Attributes
    ----------
    window_ns:
        How long it lasted, or what of it was looked at.
    offered:
        Connections that were due, those that the client could not make among them.
    replied:
        Replies to requests.
    errors:
        Failed connections (`status`: replies), by CLIENT_ERRORS and SERVER_ERRORS.
    overrun_ns:
        How long it went on after the last connection was due: the backlog that was left.
    concurrent:
        The most connections at once.
    process_ns, busy_share:
        CPU time of the server's processes, and share of its CPU that was not idle.
    calls:
        System calls by name, where somebody has counted.
    counted_by, slow_down:
        Who has, and how many times as fast the server answered without: such a run is no timing.
    warm_up_ns, seed:
        What was before the window, and what the arrivals were drawn from.
    lag_p99_ns, client_gaps:
        How late an open loop's connections began, and when the load generator did not run; None
        where the tool does not tell.
    around:
        Prices of brief benches and of a reference point, in ns, before and after the run; None
        where they cannot be measured beside the server.
    noise, accepted, reason:
        What others took from the run, and whether it may be used; see `calibration.noise`.
    doubts:
        What the tool could not have seen, one sentence each.
    """

    format: Literal["dispatchsim-observed/1"] = "dispatchsim-observed/1"
    source: Source
    server: ObservedServer = ObservedServer()
    load: ObservedLoad
    window_ns: Annotated[int, Field(ge=1)]
    offered: Count
    replied: Count
    errors: dict[ErrorName, Count] = {}
    latency_ns: ObservedLatency | None = None
    overrun_ns: Count = 0
    concurrent: Count | None = None
    process_ns: Number | None = None
    busy_share: Annotated[float, Field(ge=0, le=1)] | None = None
    calls: dict[str, Count] = {}
    counted_by: str = ""
    slow_down: Number | None = None
    warm_up_ns: Count | None = None
    seed: int | None = None
    lag_p99_ns: int | None = None
    client_gaps: Gaps | None = None
    around: dict[str, tuple[Number, Number]] | None = None
    noise: Noise | None = None
    accepted: bool = True
    reason: str = ""
    doubts: tuple[str, ...] = ()

    def rejected(self, reason: str) -> Self:
        """Return this run, which does not count for that *reason*, unless it has one already."""
        return self.model_copy(update={"accepted": False, "reason": self.reason or reason})

    @property
    def throughput_per_s(self) -> float:
        """Replies a second."""
        return self.replied * SECOND_NS / self.window_ns

    @property
    def verdict(self) -> Verdict | None:
        """How the server coped, by `sim.metrics.verdict_of`; None where a run cannot tell.

        A closed loop cannot: its users wait for the server, however slow it is. What the client
        could not offer is no load of the server.
        """
        if self.load.loop == "closed" or self.load.rate_per_s is None:
            return None
        failed = sum(n for name, n in self.errors.items() if name in SERVER_ERRORS)
        untried = sum(n for name, n in self.errors.items() if name in CLIENT_ERRORS)
        mean_ns = self.latency_ns.mean if self.latency_ns else None
        # What is answered after the last connection was due was open when it was due.
        growth = self.replied * self.overrun_ns / self.window_ns / max(1, self.load.requests)
        n_open = self.load.rate_per_s * (mean_ns or 0.0) / SECOND_NS
        answered = self.replied / max(1, self.load.requests)
        progress = progress_of_totals(answered, n_open + growth)
        return verdict_of(growth, n_open, self.offered - untried, failed, progress=progress)


def observed_run(where: str, content: Mapping[str, Any]) -> ObservedRun:
    """Return the run whose fields are in *content*; *where* begins the message of an error.

    Raises
    ------
    DataError
        If a value breaks a rule, with its field.
    """
    try:
        return ObservedRun.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise DataError(f"{where}: {name}: {first['msg'].removeprefix('Value error, ')}") from None


def read_observed(path: Path) -> Loaded[ObservedRun]:
    """Return the runs of *path*, as `append` has written them; a missing file holds none.

    Raises
    ------
    DataError
        If a line is no observed run; the message names line, field and value.
    """
    return read_rows(path, ObservedRun)


@dataclass(frozen=True)
class Habits:
    """How the server does it.

    Attributes
    ----------
    mechanism:
        By the names of the catalogue.
    accept_limit:
        Connections for one notice; 0: until there is none.
    reads_after_accept:
        Whether it reads before it waits again.
    workers:
        Event loops that serve; one that only accepts and hands over is none of them.
    share, wake:
        Of several workers; what is handed over may be so to a single one.
    """

    mechanism: str
    accept_limit: int = 0
    reads_after_accept: bool = False
    workers: int = 1
    share: Share = "accept queue"
    wake: Wake = "all"

    @property
    def loops(self) -> int:
        """Event loops, the one that only accepts among them."""
        return self.workers + (self.share == "handed over")


def habits_of(server: ObservedServer, otherwise: Habits) -> Habits:
    """Return what *server* does; *otherwise* says what its run does not."""
    return Habits(
        server.mechanism or otherwise.mechanism,
        otherwise.accept_limit if server.accept_limit is None else server.accept_limit,
        otherwise.reads_after_accept
        if server.reads_after_accept is None
        else server.reads_after_accept,
        otherwise.workers if server.workers is None else server.workers,
        server.share or otherwise.share,
        server.wake or otherwise.wake,
    )
