"""From which load on a queue of signals overflows: measured, and simulated with the same arrivals.

    python -m dispatchsim.validation.overload.overflow_onset FOLDER --profile PROFILE

FOLDER holds what `kernel_mechanisms measure` wrote, or `dispatchsim measure` on hardware. Prints a
row for each load, the medians of its accepted runs, and between which two loads signals began to be
lost.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from ...calibration.emulated.kernel_mechanisms import unmerged_points
from ...calibration.points.points import SIGNALS_QUEUE, onset_points
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import DataError, RunRecord
from ...scenario.formats import rate_text
from ...sim.state.kinds import Count
from ..forecast.forecast import Job, Lengths, outcome_of
from ..noise_free.run_forecast import job_of
from ..points.beside_profile import parser_of, run_beside_profile

_COUNTED, _HARDWARE = (of(1_000_000)[0] for of in (unmerged_points.onset_points, onset_points))


class Overflows(NamedTuple):
    """How often a queue overflowed at one load, measured and simulated: medians over runs."""

    rate_per_s: float
    n_runs: int
    measured: float
    simulated: float


def is_of_onset(record: RunRecord) -> bool:
    """Return whether a run differs from the points of the onset in its load only."""
    any_load = _COUNTED if record.steering == "emulated" else _HARDWARE
    if record.point.loop != any_load.loop:
        return False
    return replace(record.point, rate_per_s=any_load.rate_per_s) == any_load


def overflows(records: Sequence[RunRecord], profile: Profile) -> list[Overflows]:
    """Return the overflows of *records*, by load, with those of the same runs simulated."""
    found = []
    for rate_per_s, group in groupby(sorted(records, key=_rate_per_s), _rate_per_s):
        runs = list(group)
        simulated = [outcome_of(_job(run, profile)).counts[Count.OVERFLOWS] for run in runs]
        measured = [run.result.calls["overflows"] for run in runs]
        medians = (float(statistics.median(counts)) for counts in (measured, simulated))
        found.append(Overflows(rate_per_s, len(runs), *medians))
    return found


def _rate_per_s(record: RunRecord) -> float:
    return record.point.rate_per_s


def _job(record: RunRecord, profile: Profile) -> Job:
    """Return the job that repeats a run; on hardware clients have costs, too."""
    if record.steering == "emulated":
        return job_of(record, profile).job
    lengths = Lengths(record.warm_up_ns, record.window_ns)
    return Job.of(record.point, profile, record.seed, lengths)


def onset(loads: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the load until which nothing was lost, and the first at which something was.

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 0, or 1 if there is nothing to print."""
    parser = parser_of(
        "overflow_onset", "Compare the load at which RT signals overflow their queue."
    )
    return run_beside_profile(parser, arguments, _print_onset)


def _print_onset(given: argparse.Namespace, profile: Profile, runs: list[RunRecord]) -> None:
    records = [run for run in runs if is_of_onset(run)]
    if not records:
        raise DataError(f"{given.folder}: must hold runs of the onset")
    rows = overflows(records, profile)
    print(f"rt_signals, a queue of {SIGNALS_QUEUE} signals, no idle connections")
    print(f"{'connections/s':>14} {'measured':>9} {'simulated':>10} {'runs':>5}")
    for row in rows:
        counts = f"{row.measured:>9g} {row.simulated:>10g} {row.n_runs:>5}"
        print(f"{row.rate_per_s:>14,.0f} {counts}")
    for name, loads in (
        ("measured", [(row.rate_per_s, row.measured) for row in rows]),
        ("simulated", [(row.rate_per_s, row.simulated) for row in rows]),
    ):
        low, high = onset(loads)
        print(f"{name}: the first is lost between {rate_text(low)} and {rate_text(high)}")


if __name__ == "__main__":
    sys.exit(main())
