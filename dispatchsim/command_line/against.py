"""What `validate --profile P --runs R` does: a profile against its owner's own runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..calibration.running.compiling import Side, compile_engines
from ..scenario.errors import UserError
from ..sim.files.parallel import cpu_count
from .door import compiling, keeping, people, progress_bar
from .observed import Told, habits_told, observed_runs

if TYPE_CHECKING:
    from ..calibration.observed.observed_run import ObservedRun
    from ..calibration.profiles.cost_profile import Profile


def validate_runs(
    paths: Sequence[Path],
    profiles: Sequence[str],
    output: Path,
    told: Told,
    *,
    server: str | None,
    anyway: bool,
    draws: int,
    workers: int | None,
) -> None:
    """Forecast every point of the runs in *paths*, compare, and write the report into *output*.

    Raises
    ------
    UserError, DataError, FitError
        If runs or profile cannot be used.
    """
    from ..calibration.observed.observed_run import habits_of
    from ..calibration.observed.run_files import check_machine
    from ..calibration.profiles.cost_profile import Profile
    from ..calibration.running.preparation import find_profile_path
    from ..validation.forecast.kept_runs import KEPT_RUNS, KeptRuns
    from ..validation.report.observed_section import (
        observed_section,
        print_observed,
        write_observed,
    )

    if len(profiles) != 1:
        raise UserError(f"--profile: must be given once with --runs, got {len(profiles)}")
    if output.exists() and not output.is_dir():
        raise UserError(f"--output: must be a folder, got the file {output}")
    runs, notices = observed_runs(paths, server)
    habits, taken = habits_told(runs, told)
    path = find_profile_path(profiles[0])
    profile = Profile.read(path)
    notices = [*notices, *check_machine(runs, profile, anyway=anyway), *taken]
    doing = dict.fromkeys(habits_of(run.server, habits) for run in runs)
    priced = [each for each in doing if not profile.missing_for(each.mechanism)]
    if not priced:
        missing = profile.missing_for(next(iter(doing)).mechanism)
        raise UserError(
            f"{profile.name}: {missing[0]}: must be known to forecast "
            f"{next(iter(doing)).mechanism}, and it is the same for all other runs"
        )
    with keeping(output):
        for n_loops in dict.fromkeys(each.loops for each in priced):
            names = dict.fromkeys(each.mechanism for each in priced if each.loops == n_loops)
            compile_engines(list(names), profile, side=Side.of_testbed(n_loops), telling=compiling)
    output.mkdir(parents=True, exist_ok=True)
    sections = []
    with keeping(output), progress_bar("forecasting") as progress:
        kept = KeptRuns(output / KEPT_RUNS)
        for name, own in _by_name(runs).items():
            sections.append(
                observed_section(
                    name,
                    own,
                    path,
                    habits,
                    draws=draws,
                    workers=workers or cpu_count(),
                    notices=[*notices, *_strange(own, profile)],
                    progress=progress,
                    kept=kept,
                )
            )
    print_observed(write_observed(sections, output), people())


def _by_name(runs: Sequence[ObservedRun]) -> dict[str, list[ObservedRun]]:
    """Return the runs by the server's name: what its commands differ in is to be ranked."""
    named: dict[str, list[ObservedRun]] = {}
    for run in runs:
        named.setdefault(run.server.name or "a server without a name", []).append(run)
    return named


def _strange(runs: Sequence[ObservedRun], profile: Profile) -> list[str]:
    """Return a sentence if *profile* was fitted to another server than *runs* are of."""
    fitted = str(profile.machine.get("server", ""))
    name = runs[0].server.name
    if not fitted or not name or name in fitted:
        return []
    return [f'{profile.name} was fitted to "{fitted}", and these runs are of {name}']
