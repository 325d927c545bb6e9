"""Measure real servers, and set forecasts beside what was measured.

python -m dispatchsim.validation.real_servers measure [--server NAME] [--quick] [--output FOLDER]
python -m dispatchsim.validation.real_servers report [--server NAME] [--runs FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ...calibration.fit.medians import FitError
from ...calibration.measure.campaign import CampaignError, alone, interruptible, note_machine
from ...calibration.measure.campaign_progress import campaign_bar, summary_text
from ...calibration.measure.macro import Timing
from ...calibration.observed.observing import Bench
from ...calibration.profiles.cost_profile import ProfileError
from ...calibration.records.measured_runs import DataError
from ...calibration.testbed.c_build import BuildError, build
from ...calibration.testbed.machine_facts import machine_facts
from ...calibration.testbed.processes import RunError
from ...calibration.testbed.testbed import TestbedError, open_testbed
from .campaign import measure_cases, series_of, why_absent
from .plan import SERVERS, cases_of
from .report import MEASURED_FOLDER, report
from .tracing import traced

REPEATS, QUICK_REPEATS = 4, 1
_INTERRUPTED = 130  # what shells call a process that Ctrl-C has ended
_FAILURES = (
    *(BuildError, CampaignError, DataError, FitError, ProfileError, RunError, TestbedError),
    OSError,  # a folder that may not be written to, by its name
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what is asked for; whatever is wrong ends the program with a sentence."""
    given = _options(arguments)
    names = list(dict.fromkeys(given.server or SERVERS))
    try:
        if given.action == "measure":
            measure(given.output, names, quick=given.quick, repeats=given.repeats)
        else:
            report(given.runs, names, profile=given.profile, output=given.output)
    except KeyboardInterrupt:
        kept = ": every finished run is kept, the same command goes on"
        print(f"stopped{kept if given.action == 'measure' else ''}", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    except _FAILURES as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def measure(folder: Path, names: Sequence[str], *, quick: bool, repeats: int | None) -> None:
    """Measure what is missing in *folder* of the servers *names*; who is not installed is left out.

    Raises
    ------
    RunError, TestbedError, BuildError
        If a run cannot be made.
    CampaignError, DataError
        If another campaign measures, or *folder* has what was measured otherwise or elsewhere.
    """
    programs = build()
    with alone(), interruptible(), open_testbed() as testbed:
        facts = {**machine_facts(), "steering": testbed.steering}
        note_machine(folder, ("id", "steering"), facts)
        machine = str(facts["id"])
        series = series_of(machine, folder)
        bench = Bench(testbed, programs, series, _timing(quick=quick), machine)
        if testbed.notice:
            print(testbed.notice, flush=True)
        for name in names:
            server = SERVERS[name]
            if absent := why_absent(server):
                print(f"{name} is left out: {absent}", flush=True)
                continue
            n_repeats = repeats or (QUICK_REPEATS if quick else REPEATS)
            cases = cases_of(server, quick=quick)
            with campaign_bar() as progress:
                summary = measure_cases(
                    folder / name, cases, n_repeats, bench, trace=traced, progress=progress
                )
            print(f"{name}: {summary_text(summary)}", flush=True)
            if summary.interrupted:
                raise KeyboardInterrupt


def _timing(*, quick: bool) -> Timing:
    return Timing(window_s=0.5, warm_up_accept_limited_s=0.5) if quick else Timing()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m dispatchsim.validation.real_servers",
        description="Worked examples on real servers: measure them, forecast them, compare.",
    )
    actions = parser.add_subparsers(dest="action", required=True)
    measuring = actions.add_parser("measure", help="make the runs that are missing")
    measuring.add_argument("--quick", action="store_true", help="few points, once: two minutes")
    measuring.add_argument("--repeats", type=int, help=f"of every point ({REPEATS})")
    measuring.add_argument("--output", type=Path, default=Path("real_servers"), metavar="FOLDER")
    reporting = actions.add_parser("report", help="fit, forecast, and compare")
    reporting.add_argument("--runs", type=Path, default=MEASURED_FOLDER, metavar="FOLDER")
    reporting.add_argument("--profile", type=Path, help="of the machine (that of the runs)")
    reporting.add_argument("--output", type=Path, metavar="FOLDER", help="for report and scores")
    for action in (measuring, reporting):
        action.add_argument("--server", choices=SERVERS, action="append", help="only this one")
    given = parser.parse_args(arguments)
    if given.action == "measure" and given.repeats is not None and given.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {given.repeats}")
    if given.action == "report" and not given.runs.is_dir():
        parser.error(f"--runs: there is no folder {given.runs}")
    return given


if __name__ == "__main__":
    main()
