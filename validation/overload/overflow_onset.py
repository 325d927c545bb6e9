"""The load from which on a signal queue overflows, measured and simulated with equal arrivals.

    dispatchsim lab overflow-onset FOLDER --profile PROFILE

FOLDER holds the runs of `dispatchsim lab measure-unmerged`, or of `dispatchsim measure machine` on
hardware. Prints a row for each load with the medians of its accepted runs, and the two loads
between which the first signal is lost.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from ...calibration.points.point import point_at
from ...calibration.points.points import EMULATED, HARDWARE, SIGNALS_QUEUE
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import DataError, RunRecord
from ...calibration.running.preparation import Job, job_of, record_job
from ...scenario.formats import rate_text
from ...sim.state.kinds import Count
from ..noise_free.run_forecast import repeating
from ..points.measured_points import accepted_held_out

_COUNTED = EMULATED.points("unmerged", "onset", capacity_per_s=1_000_000)[0]
_HARDWARE = HARDWARE.points("held_out", "onset", capacity_per_s=1_000_000)[0]


class Overflows(NamedTuple):
    """Overflows of a queue at one load, measured and simulated: medians over runs."""

    rate_per_s: float
    n_runs: int
    measured: float
    simulated: float


def is_of_onset(record: RunRecord) -> bool:
    """Return whether a run differs from the points of the onset in load only."""
    any_load = _COUNTED if record.steering == "emulated" else _HARDWARE
    if record.point.load.loop != any_load.load.loop:
        return False
    return point_at(record.point, rate_per_s=any_load.rate_per_s) == any_load


def overflows(records: Sequence[RunRecord], profile: Profile) -> list[Overflows]:
    """Return the overflows of *records* by load, measured and simulated."""
    found = []
    for rate_per_s, group in groupby(sorted(records, key=_rate_per_s), _rate_per_s):
        runs = list(group)
        simulated = [record_job(_job(run, profile))[1].counts[Count.OVERFLOWS] for run in runs]
        measured = [run.result.calls["overflows"] for run in runs]
        medians = (float(statistics.median(counts)) for counts in (measured, simulated))
        found.append(Overflows(rate_per_s, len(runs), *medians))
    return found


def _rate_per_s(record: RunRecord) -> float:
    return record.point.rate_per_s


def _job(record: RunRecord, profile: Profile) -> Job:
    """Return the job that repeats a run; on hardware its clients cost CPU time."""
    if record.steering == "emulated":
        return repeating(record, profile).job
    asked = record.point.lasting(record.warm_up_ns, record.window_ns)
    return job_of(asked, profile, record.seed)


def onset(loads: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the highest load without loss, and the lowest with loss.

    >>> onset([(100.0, 0), (110.0, 0), (120.0, 3), (130.0, 2)])
    (110.0, 120.0)
    >>> onset([(100.0, 0)])
    (100.0, inf)
    """
    below = 0.0
    for rate_per_s, n_overflows in loads:
        if n_overflows > 0:
            return below, rate_per_s
        below = rate_per_s
    return below, float("inf")


def onset_lines(folder: Path, profile: Profile) -> Iterator[str]:
    """Yield the lines of the table, then the loads between which the first signal is lost.

    Raises
    ------
    DataError
        If *folder* holds no accepted runs of the onset.
    """
    records = [run for run in accepted_held_out(folder) if is_of_onset(run)]
    if not records:
        raise DataError(
            f"{folder}: must hold accepted runs in which RT signals begin to overflow: "
            f"`dispatchsim measure machine heldout --output {folder}` writes them"
        )
    rows = overflows(records, profile)
    yield f"rt_signals, a queue of {SIGNALS_QUEUE} signals, no idle connections"
    yield f"{'connections/s':>14} {'measured':>9} {'simulated':>10} {'runs':>5}"
    for row in rows:
        counts = f"{row.measured:>9g} {row.simulated:>10g} {row.n_runs:>5}"
        yield f"{row.rate_per_s:>14,.0f} {counts}"
    for name, loads in (
        ("measured", [(row.rate_per_s, row.measured) for row in rows]),
        ("simulated", [(row.rate_per_s, row.simulated) for row in rows]),
    ):
        low, high = onset(loads)
        yield f"{name}: the first signal is lost between {rate_text(low)} and {rate_text(high)}"
