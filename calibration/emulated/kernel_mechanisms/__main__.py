"""Measure what was never merged, and print what was measured.

    python -m dispatchsim.calibration.emulated.kernel_mechanisms measure [KIND] [--output FOLDER]
    python -m dispatchsim.calibration.emulated.kernel_mechanisms tables [FOLDER]

The first builds a kernel if need be, shows a bar, and may be interrupted at any time: the same
command goes on from there. KIND is micro, fit, heldout or all. The second prints the tables of
README.md from the shipped records.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rich.console import Console

from ...measure.campaign import CampaignError, check_machine
from ...measure.campaign_progress import building_bar, campaign_bar, summary_text
from ...measure.machine_campaigns import Kind, run_campaign
from ...records.measured_runs import DataError
from ..errors import TargetError
from ..kernel_build import UnfinishedBuild
from .unmerged_tables import SHIPPED, tables_of
from .unmerged_target import ID, unmerged_target

_INTERRUPTED = 130  # what shells call a process that Ctrl-C has ended


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m dispatchsim.calibration.emulated.kernel_mechanisms",
        description="Measure the mechanisms that were never merged into Linux.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("measure", help="measure what FOLDER does not hold yet")
    measure.add_argument("kind", nargs="?", choices=get_args(Kind), default="all")
    measure.add_argument("--output", type=Path, default=Path("measured") / ID, metavar="FOLDER")
    measure.add_argument("--quick", action="store_true", help="one point in ten")
    tables = commands.add_parser("tables", help="print the tables of README.md")
    tables.add_argument("folder", type=Path, nargs="?", default=SHIPPED, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        if options.command == "tables":
            print(tables_of(options.folder), end="")
        elif _measure(options.kind, options.output, quick=options.quick):
            sys.exit(_INTERRUPTED)
    except UnfinishedBuild as stop:
        print(f"stopped; {stop}", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except (CampaignError, DataError, TargetError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def _measure(kind: Kind, output: Path, *, quick: bool) -> bool:
    """Measure; return whether that was interrupted."""
    check_machine(output, ID)
    notes = Console(stderr=True)
    with building_bar(notes) as building:
        target = unmerged_target(building)
    with campaign_bar(notes) as progress:
        summary = run_campaign(target, kind=kind, output=output, quick=quick, progress=progress)
    print(summary_text(summary))
    if not summary.interrupted:
        print(f"results are in {output}; a second run of this command adds what is missing")
    return summary.interrupted


if __name__ == "__main__":
    main()
