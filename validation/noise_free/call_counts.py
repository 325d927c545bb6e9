"""System calls per request of a C server, and of its model with the same arrivals.

    dispatchsim lab call-counts FOLDER --profile PROFILE

FOLDER holds runs of a counted target. With a single user neither chance nor timing matters, and
every kind of call must be made equally often (except the waits of epoll_once, which never sleeps).
Under load the sums of all calls are compared, separately below the capacity and from there on.
Prints a row for each mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import DataError, RunRecord
from ...calibration.running.preparation import run_job
from ..points.figures import ratio
from ..points.measured_points import accepted_held_out
from .run_forecast import Counts, measured_counts, repeating, simulated_counts
from .scoring import SATURATED_BUSY

CALLS = (
    *("waits", "accepts", "accept_again", "reads", "read_again", "writes", "write_short"),
    *("watches", "rewatches", "unwatches", "closes", "asks", "updates"),
)
"""The call counters, by their names on both sides."""
CUT = 4
"""Calls of a kind that the ends of a window may cut off: two per request, at both ends."""
LOAD_LIMIT = 0.02


class CallsOfRun(NamedTuple):
    """The calls of a run per request, measured and simulated, and the number of requests."""

    record: RunRecord
    n_requests: int
    measured: Counts
    simulated: Counts

    @property
    def has_one_user(self) -> bool:
        """Whether only one connection was open at a time."""
        return self.record.point.users == 1

    @property
    def unequal(self) -> list[str]:
        """The calls whose counts differ by more than the ends of a window explain."""
        slack = CUT / max(1, self.n_requests)
        return [name for name in CALLS if abs(self.simulated[name] - self.measured[name]) > slack]

    @property
    def error(self) -> float:
        """The sum of all calls, simulated over measured, minus 1."""
        simulated, measured = (
            sum(counts[name] for name in CALLS) for counts in (self.simulated, self.measured)
        )
        return ratio(simulated, measured) - 1

    @property
    def is_busy(self) -> bool:
        """Whether the server's CPU was never idle, as at or above the capacity."""
        return self.record.result.cpu.busy_ns >= SATURATED_BUSY * self.record.window_ns


def calls_of(record: RunRecord, profile: Profile) -> CallsOfRun:
    """Return the calls of a run, and of the same run simulated."""
    simulated = simulated_counts(run_job(repeating(record, profile).job).summary)
    return CallsOfRun(
        record, record.result.calls.get("replies", 0), measured_counts(record), simulated
    )


def _row(name: str, runs: Sequence[CallsOfRun]) -> str:
    one_user = [run for run in runs if run.has_one_user]
    equal = sum(not run.unequal for run in one_user)
    unequal = sorted({call for run in one_user for call in run.unequal})
    parts: list[Callable[[CallsOfRun], bool]] = [
        lambda run: not run.has_one_user and not run.is_busy,
        lambda run: not run.has_one_user and run.is_busy,
    ]
    shown = [_within([run.error for run in runs if part(run)]) for part in parts]
    exact = f"{equal} of {len(one_user)}" if one_user else "-"
    note = f"  unequal: {', '.join(unequal)}" if unequal else ""
    return f"{name:<16} {exact:>10} {shown[0]:>22} {shown[1]:>22}{note}"


def _within(errors: Sequence[float]) -> str:
    if not errors:
        return "-"
    n = sum(abs(error) <= LOAD_LIMIT for error in errors)
    return f"{n} of {len(errors)}, {max(map(abs, errors)):.1%}"


def call_lines(folder: Path, profile: Profile) -> Iterator[str]:
    """Yield the lines of the table.

    Raises
    ------
    DataError
        If *folder* holds no accepted runs of a counted target.
    """
    records = [run for run in accepted_held_out(folder) if run.steering == "emulated"]
    if not records:
        raise DataError(
            f"{folder}: must hold accepted runs of the emulated target, which counts calls: "
            f"`dispatchsim measure machine --target emulated --output {folder}` writes them"
        )
    found: dict[str, list[CallsOfRun]] = {}
    for record in records:
        found.setdefault(record.point.server.mechanism, []).append(calls_of(record, profile))
    within = f"within {LOAD_LIMIT:.0%}, worst"
    yield f"{'calls a request':<16} {'one user':>10} {'below capacity':>22} {'at capacity':>22}"
    yield f"{'':<16} {'equal':>10} {within:>22} {within:>22}"
    for name, calls in found.items():
        yield _row(name, calls)
