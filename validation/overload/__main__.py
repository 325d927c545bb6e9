"""Set overload as it was measured beside the simulation of the same runs.

python -m dispatchsim.validation.overload FOLDER [--profile PROFILE]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from ...calibration.profiles.cost_profile import Profile, ProfileError, shipped_profiles
from ...calibration.records.measured_runs import DataError, read_rows
from ...calibration.records.overload_records import OVERLOAD_FILE, OverloadRecord
from ...scenario.formats import rate_text
from ...sim.files.tables import rich_table
from .overload import Compared, compare
from .verdicts import overload_tables

_WIDTH = 120


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the comparison; return 0, or 1 if there is nothing to compare."""
    parser = argparse.ArgumentParser(
        prog="python -m dispatchsim.validation.overload",
        description="Set overload as it was measured beside the simulation of the same runs.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a machine's raw results")
    parser.add_argument("--profile", type=Path, help="the shipped one of FOLDER's name if absent")
    given = parser.parse_args(arguments)
    try:
        records = read_rows(given.folder / OVERLOAD_FILE, OverloadRecord).rows
        if not any(record.accepted for record in records):
            raise DataError(
                f"{given.folder / OVERLOAD_FILE}: must hold accepted runs "
                f"(dispatchsim measure overload --output {given.folder} makes some)"
            )
        profile = Profile.read(given.profile or profile_path(given.folder, shipped_profiles()))
        _print(compare(records, profile))
    except (ProfileError, DataError) as error:
        print(f"overload: {error}", file=sys.stderr)
        return 1
    return 0


def _print(compared: Sequence[Compared]) -> None:
    """Print the runs of each point, every figure, then how many figures are within."""
    console = Console(width=_WIDTH, highlight=False, markup=False)
    for entry in compared:
        console.print(
            f"{entry.point.label}: {entry.n_runs} accepted, {entry.n_rejected} rejected, "
            f"capacity {rate_text(entry.capacity_per_s)}, measured load {entry.load:.3f}"
        )
    for table in reversed(overload_tables(compared)):
        console.print()
        console.print(rich_table(table))


def profile_path(folder: Path, shipped: Mapping[str, Path]) -> Path:
    """Return the shipped profile of a machine's *folder*."""
    name = folder.resolve().name
    if name not in shipped:
        raise DataError(f"--profile: must be given, as no profile of {name} is shipped")
    return shipped[name]


if __name__ == "__main__":
    sys.exit(main())
