"""One run of a server as observed from outside, and the state of the server in it.

A run of our own servers has every field (`measured_runs.RunRecord`). For another server a tool
records what it can. Everything else is absent: None or an empty dictionary, never a zero.
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
"""What event loops share: one accept queue, nothing (SO_REUSEPORT), or the first loop, which
accepts connections and hands them to the others."""
Wake = Literal["all", "one"]
"""The waiting workers that a new connection wakes: all, or one (EPOLLEXCLUSIVE)."""
ErrorName = Literal["descriptors", "ports", "timeout", "refused", "reset", "dropped", "status"]
CLIENT_ERRORS: tuple[ErrorName, ...] = ("descriptors", "ports")
"""Errors of the load generator: they never reached the server."""
SERVER_ERRORS: tuple[ErrorName, ...] = ("timeout", "refused", "reset", "dropped", "status")
"""Errors of the server, or of its overload; `status`: it replied with an error."""

KEPT_UP = 0.97
"""With fewer replies, as a share of those asked for, a load generator did not get its rate."""

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Frozen):
    """The origin of a run: the tool, its file, date and machine, as far as known."""

    tool: str
    file: str = ""
    date: str = ""
    machine: str = ""


class ObservedServer(_Frozen):
    """The server of a run; a habit (`Habits`) that was not observed is None."""

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
    """The load that clients made.

    Attributes
    ----------
    loop:
        Open: connections arrive at `rate_per_s`, however slow the server is. Closed: `users`
        clients (None: number not recorded) each wait for their reply.
    requests:
        Requests of each connection; 0: as many as fit the run.
    idle:
        Further connections that are open and silent; None: not recorded.
    think_ns:
        The mean pause of a closed loop's user between two requests; None: not recorded.
    timeout_ns:
        When clients gave up; None: never, or not recorded.
    asked:
        The request in words; empty: not recorded.
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
            raise ValueError("an open loop needs a rate_per_s")
        return self


class ObservedLatency(_Frozen):
    """Latencies in ns of requests that received replies.

    `since` is their beginning: "intended" when the request was due, "connect" when its connection
    was begun, "sent" when it was sent. Quantiles have their share as a key: {"0.99": ...}.
    """

    since: Literal["intended", "connect", "sent"]
    quantiles: dict[str, Number] = {}
    mean: Number | None = None
    max: Number | None = None

    @model_validator(mode="after")
    def _in_order(self) -> ObservedLatency:
        known = sorted((float(share), value) for share, value in self.quantiles.items())
        if any(not 0 <= share <= 1 for share, _ in known):
            raise ValueError("the keys of quantiles must be shares between 0 and 1")
        values = [value for _, value in known]
        if values != sorted(values):
            raise ValueError("a higher quantile must not be below a lower one")
        return self


class ObservedRun(_Frozen):
    """One run as observed from outside.

    Attributes
    ----------
    window_ns:
        The length of the run, or of the part that was observed.
    offered:
        Connections that were due, including those that the client could not make.
    replied:
        Replies to requests.
    errors:
        Failed connections (`status`: replies), by CLIENT_ERRORS and SERVER_ERRORS.
    overrun_ns:
        How long the run continued after the last connection was due: the remaining backlog.
    concurrent:
        The most connections at once.
    process_ns, busy_share:
        CPU time of the server's processes, and share of its CPU that was not idle.
    calls:
        System calls by name, where they were counted.
    counted_by, slow_down:
        The tracer, and the ratio of untraced to traced reply rate; the times of such a run do not
        count.
    warm_up_ns, seed:
        The time before the window, and the seed of the arrivals.
    lag_p99_ns, client_gaps:
        How late an open loop's connections began, and when the load generator did not run; None:
        not recorded.
    around:
        Costs of short benches and of a reference point, in ns, before and after the run; None
        where they cannot be measured beside the server.
    noise, accepted, reason:
        The disturbance of the run, and whether it may be used; see `calibration.noise`.
    doubts:
        What the tool cannot measure, one sentence each.
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
        """Return this run as not accepted, for *reason* unless it has a reason already."""
        return self.model_copy(update={"accepted": False, "reason": self.reason or reason})

    @property
    def throughput_per_s(self) -> float:
        """Replies a second."""
        return self.replied * SECOND_NS / self.window_ns

    @property
    def verdict(self) -> Verdict | None:
        """The server's state, by `sim.metrics.verdict_of`; None where a run does not show it.

        A closed loop does not: its users wait for the server, however slow it is. Nor does an open
        loop with fewer replies than requests were due, without failures and without a backlog at
        its end: the server is too slow, or the client has too few connections. Connections that
        the client could not offer are no load of the server.
        """
        if self.load.loop == "closed" or self.load.rate_per_s is None:
            return None
        failed = sum(n for name, n in self.errors.items() if name in SERVER_ERRORS)
        untried = sum(n for name, n in self.errors.items() if name in CLIENT_ERRORS)
        mean_ns = self.latency_ns.mean if self.latency_ns else None
        # A reply after the last connection was due belongs to a connection open at that time.
        growth = self.replied * self.overrun_ns / self.window_ns / max(1, self.load.requests)
        n_open = self.load.rate_per_s * (mean_ns or 0.0) / SECOND_NS
        answered = self.replied / max(1, self.load.requests)
        progress = progress_of_totals(answered, n_open + growth)
        n_offered = self.offered - untried
        found = verdict_of(growth, n_open, n_offered, failed, progress=progress)
        is_short = answered + failed + growth < KEPT_UP * n_offered
        return None if is_short and found is not Verdict.OVERLOADED else found


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
        If a line is not an observed run; the message names line, field and value.
    """
    return read_rows(path, ObservedRun)


@dataclass(frozen=True)
class Habits:
    """How a server waits, accepts and shares connections.

    Attributes
    ----------
    mechanism:
        Its name in the catalogue.
    accept_limit:
        Connections accepted for one event; 0: until the queue is empty.
    reads_after_accept:
        Whether it reads from a new connection before its next wait.
    workers:
        Event loops that serve connections, without one that only accepts and hands over.
    share, wake:
        Of several workers; connections may also be handed over to a single worker.
    """

    mechanism: str
    accept_limit: int = 0
    reads_after_accept: bool = False
    workers: int = 1
    share: Share = "accept queue"
    wake: Wake = "all"

    @property
    def loops(self) -> int:
        """Event loops, including one that only accepts."""
        return self.workers + (self.share == "handed over")


def habits_of(server: ObservedServer, otherwise: Habits) -> Habits:
    """Return the habits of *server*; *otherwise* fills in those that were not observed."""
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
