"""From which load on a queue of signals overflows: measured, and simulated with the same arrivals.

    python -m dispatchsim.validation.noise_free.overflow_onset FOLDER --profile PROFILE

FOLDER holds what `kernel_mechanisms measure` wrote. Prints a row for each load, and between which
two loads the first signal was lost.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...calibration.cost_profile import Profile, ProfileError
from ...calibration.emulated.kernel_mechanisms.unmerged_points import QUEUE, onset_points
from ...calibration.measured_runs import DataError, RunRecord, read_runs
from ...sim.kinds import Count
from ..forecast import outcome_of
from .run_forecast import job_of

_ANY = onset_points(1_000_000)[0]


class Overflows(NamedTuple):
    """How often a queue overflowed at one load, measured and simulated."""

    rate_per_s: float
    measured: int
    simulated: int


def is_of_onset(record: RunRecord) -> bool:
    """Return whether a run differs from the points of the onset in its load only."""
    return replace(record.point, rate_per_s=_ANY.rate_per_s) == _ANY


def overflows(records: Sequence[RunRecord], profile: Profile) -> list[Overflows]:
    """Return the overflows of *records*, by load, with those of the same runs simulated."""
    found = [
        Overflows(
            record.point.rate_per_s,
            record.result.calls["overflows"],
            int(outcome_of(job_of(record, profile).job).counts[Count.OVERFLOWS]),
        )
        for record in records
    ]
    return sorted(found)


def onset(loads: Sequence[tuple[float, int]]) -> tuple[float, float]:
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
    parser = argparse.ArgumentParser(
        prog="python -m dispatchsim.validation.noise_free.overflow_onset",
        description="Compare the load at which RT signals overflow their queue.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--profile", type=Path, required=True)
    given = parser.parse_args(arguments)
    try:
        profile = Profile.read(given.profile)
        records = [r for r in read_runs(given.folder / "heldout.jsonl").rows if is_of_onset(r)]
    except (ProfileError, DataError) as error:
        print(f"overflow_onset: {error}", file=sys.stderr)
        return 1
    if not records:
        print(f"overflow_onset: {given.folder}: must hold runs of the onset", file=sys.stderr)
        return 1
    rows = overflows(records, profile)
    print(f"rt_signals, a queue of {QUEUE} signals, no idle connections")
    print(f"{'connections/s':>14} {'measured':>9} {'simulated':>10}")
    for row in rows:
        print(f"{row.rate_per_s:>14,.0f} {row.measured:>9} {row.simulated:>10}")
    for name, loads in (
        ("measured", [(row.rate_per_s, row.measured) for row in rows]),
        ("simulated", [(row.rate_per_s, row.simulated) for row in rows]),
    ):
        low, high = onset(loads)
        print(f"{name}: the first is lost between {low:,.0f}/s and {high:,.0f}/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
