"""Commands that set the held-out runs of a folder beside what a profile forecasts of them.

    FOLDER --profile PROFILE [options] ──► profile, accepted runs ──► the command's own table

What is wrong with these is said in one line, and nothing is printed then.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ...calibration.profiles.cost_profile import Profile, ProfileError
from ...calibration.records.measured_runs import DataError, RunRecord, read_rows

Work = Callable[[argparse.Namespace, Profile, list[RunRecord]], None]


def parser_of(module: str, description: str) -> argparse.ArgumentParser:
    """Return what reads the command line of *module*: the folder and the profile so far."""
    parser = argparse.ArgumentParser(
        prog=f"python -m dispatchsim.validation.{module}", description=description
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a machine's raw results")
    parser.add_argument("--profile", type=Path, required=True)
    return parser


def run_beside_profile(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, work: Work
) -> int:
    """Do *work* with what the command line names; return 0, or 1 if something is wrong with it.

    *work* is given the options, the profile and the accepted runs, and raises `DataError` where
    the folder lacks what it needs.
    """
    given = parser.parse_args(arguments)
    try:
        profile = Profile.read(given.profile)
        runs = [
            run for run in read_rows(given.folder / "heldout.jsonl", RunRecord).rows if run.accepted
        ]
        work(given, profile, runs)
    except (ProfileError, DataError) as error:
        print(f"{parser.prog.rpartition('.')[2]}: {error}", file=sys.stderr)
        return 1
    return 0
