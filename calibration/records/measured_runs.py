"""Raw results on disk: one JSON object a line, appended and never edited.

    micro.jsonl              MicroResult      "dispatchsim-micro/1"
    fit.jsonl heldout.jsonl  RunRecord        "dispatchsim-run/1"
    overload.jsonl           OverloadRecord   "dispatchsim-overload/2"     overload_records.py
    flood.jsonl              FloodRecord      "dispatchsim-flood/1"        flood_records.py
    impatient.jsonl kept.jsonl                as fit.jsonl

A line is written with one `write` and flushed to the disk, so a killed campaign leaves at most
one torn line, the last; reading reports it, and resuming drops it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Generic, Literal, Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ..points.point import Steering, StoredPoint


class DataError(ValueError):
    """A file of raw results cannot be read. The message names file, line, field and value."""


class Measured(Protocol):
    """A row written by a task of a campaign, and whether it may be used."""

    @property
    def accepted(self) -> bool:
        """Whether the gate accepted the row."""

    @property
    def reason(self) -> str:
        """The reason for rejection, else empty."""

    def model_dump_json(self) -> str:
        """Return the row as JSON."""


class Frozen(BaseModel):
    """A record, or a part of one, without undeclared fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Unjudged(Frozen):
    """A row that always counts: it records noise, or has quantiles that show it."""

    @property
    def accepted(self) -> bool:
        """True."""
        return True

    @property
    def reason(self) -> str:
        """Empty, because the row is accepted."""
        return ""


QUICK = " --milliseconds 50"
"""The option of a brief bench: its length without preparation."""


class MicroResult(Unjudged):
    """The cost of one operation, measured by one microbenchmark in one round.

    `command` is the command line of the bench. A bench may print further fields.
    `floor_ns` and `floor_ratio` are those of `Noise`.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    format: Literal["dispatchsim-micro/1"] = "dispatchsim-micro/1"
    date: str
    code: str
    bench: str
    command: str = ""
    parameters: dict[str, int | float | str]
    round: int
    unit: str
    median: float
    p10: float
    p90: float
    operations: int
    floor_ns: float = 0
    floor_ratio: float = 0

    @property
    def of_task(self) -> tuple[int, str]:
        """The round, and the command line of the bench."""
        return self.round, self.command

    @property
    def steering(self) -> str:
        """The steering of the bench's clients if recorded, else empty."""
        return str((self.model_extra or {}).get("steering", ""))

    @property
    def is_quick(self) -> bool:
        """Whether the bench was brief."""
        return self.command.endswith(QUICK)

    @property
    def in_full(self) -> str:
        """The command line of the bench without its brief option."""
        return self.command.removesuffix(QUICK)


class ErrorCounts(Frozen):
    """Failed connections of the window, by the client's reason."""

    timeout: int = 0
    refused: int = 0
    reset: int = 0
    descriptors: int = 0


class Latency(Frozen):
    """Quantiles of intended send time to last byte, in ns, over the replied connections.

    p999 needs 10,000 or more replies, otherwise it is None.
    """

    mean: float
    p50: float
    p90: float
    p99: float
    p999: float | None = None
    max: float


class ReplyRate(Frozen):
    """Replies/s over the intervals of the window (`interval_ns` long)."""

    min: float
    mean: float
    max: float
    sd: float
    interval_ns: int = 100_000_000


class CpuTimes(Frozen):
    """CPU time in the window: of the server process by its own clock, of its CPU by `/proc/stat`.

    n_calls counts the interrupts from the client's CPU to the server's.
    """

    process_ns: int
    busy_ns: int
    softirq_ns: int
    n_calls: int = 0


class ClientTimes(Frozen):
    """CPU time of the load generator, and its lateness in starting connections or requests.

    Older records lack lag_p99_ns and lag_p999_ns.
    """

    cpu_ns: int
    lag_p50_ns: int
    lag_p99_ns: int | None = None
    lag_p999_ns: int | None = None
    lag_max_ns: int


class Gaps(Frozen):
    """Times at which a spinning program did not run, from the start of the run.

    All gaps above 1 us count in `n` and `lost_ns`; `at_ns` (start) and `length_ns` hold the gaps
    longer than `above_ns`, in order of time. Older records also hold gaps before the run
    (`of_run`).
    """

    above_ns: int
    n: int
    lost_ns: int
    at_ns: list[int]
    length_ns: list[int]

    @property
    def of_run(self) -> Self:
        """The gaps of the run itself, without gaps of the load generator before it.

        Until 2026-11-26 a generator also recorded its own sleep while it held connections. The
        start of the run reset its clock, so these rows are before a step back of `at_ns`. `n` and
        `lost_ns` also counted them; here they count the remaining rows. If the first gap of the run
        has a later time than all earlier rows, there is no step, and the earlier rows stay.

        >>> Gaps(above_ns=4, n=9, lost_ns=99, at_ns=[30, 40, 10], length_ns=[9, 9, 5]).of_run
        Gaps(above_ns=4, n=1, lost_ns=5, at_ns=[10], length_ns=[5])
        """
        steps = enumerate(pairwise(self.at_ns), start=1)
        first = next((i for i, (earlier, later) in steps if later < earlier), 0)
        if not first:
            return self
        length_ns = self.length_ns[first:]
        return self.model_copy(
            update={
                "n": len(length_ns),
                "lost_ns": sum(length_ns),
                "at_ns": self.at_ns[first:],
                "length_ns": length_ns,
            }
        )


class RunResult(Frozen):
    """The result of one run within its window.

    `unfinished` connections were offered in the window and still open at the end of the run. With
    kept connections, `offered`, `replied`, `unfinished`, `errors` and `latency_ns` count requests.
    `connections_failed` were lost or not established; None without kept connections. Counted on the
    emulated target only, None elsewhere: the network's interrupts and polls, packets to and from
    the server, and the server's context switches: voluntary, to sleep (`switches`), and to another
    task (`switches_involuntary`).
    """

    offered: int
    accepted: int
    replied: int
    unfinished: int = 0
    errors: ErrorCounts
    latency_ns: Latency | None
    reply_rate_per_s: ReplyRate
    calls: dict[str, int]
    cpu: CpuTimes
    client: ClientTimes
    interrupts: int | None = None
    polls: int | None = None
    packets_in: int | None = None
    packets_out: int | None = None
    switches: int | None = None
    switches_involuntary: int | None = None
    connections_failed: int | None = None


class Noise(Frozen):
    """The disturbances of a run; its calibrations, measured and relative to quiet ones.

    `foreign_share` is the share of the window in which other programs computed on the server's CPU.
    At low load they only fill its idle time without delaying it, but they spoil `busy_ns`.
    `floor_ns` is the time of a cheap system call before or after the run, the longer of the two.
    `floor_ratio` is its ratio to a call in a calm moment. Both are 0 if not measured.
    """

    server_delay_share: float
    client_delay_share: float
    steal_share: float
    foreign_share: float = 0
    spin_ratio: float
    memory_ratio: float
    spin_ns: float = 0
    memory_ns: float = 0
    floor_ns: float = 0
    floor_ratio: float = 0


AnyPoint = TypeVar("AnyPoint")


class MeasuredRun(Frozen, Generic[AnyPoint]):
    """One run: its point, round and seed, and whether it was accepted.

    Derived classes add the measurements.
    """

    format: str
    date: str
    code: str
    point: AnyPoint
    repeat: int
    seed: int
    window_ns: int
    noise: Noise
    accepted: bool
    reason: str

    @property
    def of_task(self) -> tuple[int, AnyPoint]:
        """The round, and the point."""
        return self.repeat, self.point

    def rejected(self, reason: str) -> Self:
        """Return this run rejected for *reason*, unless it is already rejected."""
        return self.model_copy(update={"accepted": False, "reason": self.reason or reason})


class RunRecord(MeasuredRun[StoredPoint]):
    """One run at a point, of a closed or an open loop.

    `client_gaps` are the gaps of the load generator's CPU. `around` holds the costs of short
    benches before and after the run, in ns by bench. `resolved` holds the kernel's limits in force,
    by name. Older records lack these fields. Response times and lateness exclude the first
    `untimed_ns` of the window.
    """

    format: Literal["dispatchsim-run/1"] = "dispatchsim-run/1"
    steering: Steering
    warm_up_ns: int
    untimed_ns: int = 0
    result: RunResult
    client_gaps: Gaps | None = None
    around: dict[str, tuple[float, float]] | None = None
    resolved: dict[str, int | str] | None = None


Row = TypeVar("Row", bound=BaseModel)


@dataclass(frozen=True)
class Loaded(Generic[Row]):
    """The rows of a file, and notices for the user."""

    rows: list[Row] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def append(path: Path, *rows: Measured) -> None:
    """Append a line for each row to *path* in one write, and flush it to the disk."""
    lines = b"".join(row.model_dump_json().encode() + b"\n" for row in rows)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        written = os.write(descriptor, lines)
        if written != len(lines):
            raise OSError(f"only {written} of {len(lines)} bytes were written to {path.name}")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def drop_torn_line(path: Path) -> str:
    """Cut an unfinished last line off *path*; return a notice, or an empty string."""
    if not path.exists():
        return ""
    content = path.read_bytes()
    if not content or content.endswith(b"\n"):
        return ""
    kept = content.rfind(b"\n") + 1
    with path.open("r+b") as file:
        file.truncate(kept)
        os.fsync(file.fileno())
    line_number = content.count(b"\n") + 1
    return f"{path.name} line {line_number}: torn by an interrupted write, dropped"


def read_rows(path: Path, model: type[Row]) -> Loaded[Row]:
    """Return the rows of *path*, all in the format of *model*; none if the file is missing.

    Raises
    ------
    DataError
        If a line has another format; the message names line, field and value.
    """
    if not path.exists():
        return Loaded()
    lines = path.read_bytes().split(b"\n")
    notices = []
    if lines.pop():
        notices.append(f"{path.name} line {len(lines) + 1}: torn by an interrupted write, ignored")
    rows = [
        _parse(line, f"{path.name} line {number}", model)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    return Loaded(rows, notices)


def _parse(line: bytes, where: str, model: type[Row]) -> Row:
    """Return the row in *line*; error messages begin with *where*."""
    expected = model.model_fields["format"].default
    try:
        content = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: not JSON ({error})") from error
    if not isinstance(content, dict):
        raise DataError(f"{where}: must be a JSON object, got {_short(content)}")
    if content.get("format") != expected:
        raise DataError(
            f'{where}: format must be "{expected}", got {_short(content.get("format"))}'
        )
    validate: Callable[[object], Row] = model.model_validate
    try:
        return validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        if first["type"] == "missing":
            raise DataError(f"{where}: field {name} is missing") from error
        raise DataError(f"{where}: field {name} is {_short(first['input'])}: {problem}") from error


def _short(value: object) -> str:
    """Return *value* as JSON, cut to fit a message."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
