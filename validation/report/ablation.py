"""The errors of all runs with each effect of the model, and without it.

    profile ──leave one effect out──► fit again ──► forecasts ──► errors ─┐
       └──────────────────────────────────────────► forecasts ──► errors ─┴─► before, after

    dispatchsim lab ablation FOLDER --profile PROFILE

FOLDER holds the runs of `dispatchsim measure machine`; PROFILE was fitted to them by `dispatchsim
calibrate machine`. For the emulated target the table has the median and worst absolute error of
each promised metric over the held-out runs, without an effect and with all of them. For a real
machine it has the median error, with the sign of most, by metric and load regime, one seed a point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...calibration.fit.fit import fit_rates_per_s
from ...calibration.fit.request_fit import with_requests
from ...calibration.profiles.cost import Cost
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import DataError, RunRecord, read_rows
from ...sim.engine.workers import workers_for
from ...sim.files.parallel import cpu_count
from ...sim.state.effects import EFFECTS as PRICED
from ..forecast.forecast import Lengths, Request, forecasts, unknown
from ..noise_free.promises import LIMITS, NAMES
from ..noise_free.run_forecast import repeating, run_forecasts
from ..noise_free.scoring import score_runs
from ..points.measured_points import MeasuredPoint, accepted_held_out, group
from ..scoring.regimes import RegimeErrors, regime_errors
from ..scoring.scoring import score
from ..scoring.value_verdicts import signed
from .point_tables import FIGURE_NAMES, REGIME_NAMES

Tables = dict[str, dict[str, Cost]]


def _without(*names: str) -> Callable[[Tables], None]:
    """Return a function that removes the costs *names* ("call.crowding") from tables."""

    def change(tables: Tables) -> None:
        for name in names:
            table, cost = name.split(".")
            tables.get(table, {}).pop(cost, None)

    return change


def _release_with_register(tables: Tables) -> None:
    """Charge leaving a wait queue when it is entered."""
    for name in ("select", "poll"):
        if "release" not in tables.get(name, {}):
            continue
        register, release = tables[name]["register"], tables[name].pop("release")
        both = np.array(register.value) + np.interp(register.at, release.at, release.value)
        numbers = tuple(float(ns) for ns in both)
        tables[name]["register"] = register.model_copy(
            update={"value": numbers, "low": numbers, "high": numbers}
        )


EFFECTS: dict[str, Callable[[Tables], None]] = {
    "leaving-wait-queues": _release_with_register,
    "moments-within-calls": _without(
        "call.accept_after_ns", "call.write_after_ns", "interrupt.syn_after_ns"
    ),
    "sets-are-copied-first": _without("select.look", "poll.look"),
    "kept-stacks": _without("blocking.stack_ns", "blocking.stack_freed_ns"),
    **{name: _without(*effect.costs) for name, effect in PRICED.items()},
}
"""The function that removes each effect from a profile, by the effect's id."""
COUNTED = ("leaving-wait-queues", "moments-within-calls", "sets-are-copied-first", "crowding",
           "kept-stacks", "dropped-syns-are-cheap", "acknowledged-by-replies")  # fmt: skip
"""The effects that the emulated target has."""


def without(profile: Profile, effect: str, fit_runs: Sequence[RunRecord]) -> Profile:
    """Return *profile* without *effect*, fitted again to *fit_runs*."""
    tables = {name: dict(costs) for name, costs in profile.cost.items()}
    EFFECTS[effect](tables)
    return with_requests(
        profile.model_copy(update={"cost": tables}),
        fit_rates_per_s(fit_runs),
        displaces=effect != "displaced-caches",
    )


def errors_of(profile: Profile, runs: Sequence[RunRecord]) -> dict[str, NDArray[np.float64]]:
    """Return the absolute relative errors of each metric over the scored runs."""
    # Without the measured CPU time, no run is simulated again at equal CPU.
    jobs = [repeating(run, profile)._replace(cpu_ns=math.nan) for run in runs]
    scores = score_runs(runs, run_forecasts(jobs), {}, seen=())
    return {
        figure: np.array([abs(e) for s in scores if (e := getattr(s.errors, figure)) is not None])
        for figure in LIMITS
    }


def effect_lines(
    folder: Path, profile: Profile, effects: Sequence[str], every: int
) -> Iterator[str]:
    """Yield the lines of the table of *effects* over every n-th run or point in *folder*.

    Without *effects* the table has all effects of the target.

    Raises
    ------
    DataError
        If the runs in *folder* are not of the format, or none is accepted.
    """
    runs = accepted_held_out(folder)
    if not runs:
        raise DataError(f"{folder / 'heldout.jsonl'}: must hold accepted runs, got none")
    if any(run.steering != "emulated" for run in runs):
        priced = [name for name in PRICED if profile.has_effect(name)]
        yield from _hardware_lines(folder, profile, effects or priced, runs, every)
    else:
        yield from _counted_lines(folder, profile, effects or COUNTED, runs[:: max(1, every)])


def _hardware_lines(
    folder: Path, profile: Profile, effects: Sequence[str], runs: Sequence[RunRecord], every: int
) -> Iterator[str]:
    measured = group(runs)[:: max(1, every)]
    fit_runs = read_rows(folder / "fit.jsonl", RunRecord).rows
    whole = _machine_errors(profile, measured)
    yield f"{'effect':24} {'error of':32} {'load':32} {'points':>6} {'without':>8} {'with':>8}"
    for effect in effects:
        less = _machine_errors(without(profile, effect, fit_runs), measured)
        for key, error in whole.items():
            if key not in less:
                continue
            figure, regime = key
            cells = f"{error.n:6} {signed(less[key].signed):>8} {signed(error.signed):>8}"
            yield f"{effect:24} {FIGURE_NAMES[figure]:32} {REGIME_NAMES[regime]:32} {cells}"


def _machine_errors(
    profile: Profile, measured: Sequence[MeasuredPoint]
) -> dict[tuple[str, str], RegimeErrors]:
    """Return the errors of forecasts at central costs, by metric and regime."""
    requests = [
        Request(entry.point, entry.seeds[:1], 0, Lengths(entry.warm_up_ns, entry.window_ns))
        for entry in measured
        if unknown(profile, entry.point) is None
    ]
    with workers_for("auto", cpu_count()) as executor:
        made = forecasts(requests, profile, executor=executor)
        found = {request.point: forecast for request, forecast in made}
    errors = regime_errors(score(measured, found, {}))
    return {(error.figure, error.regime): error for error in errors}


def _counted_lines(
    folder: Path, profile: Profile, effects: Sequence[str], picked: Sequence[RunRecord]
) -> Iterator[str]:
    fit_runs = read_rows(folder / "fit.jsonl", RunRecord).rows
    after = errors_of(profile, picked)
    yield f"{'effect':24} {'figure':18} {'median':>8} {'with':>8} {'worst':>8} {'with':>8}"
    for effect in effects:
        before = errors_of(without(profile, effect, fit_runs), picked)
        for figure in LIMITS:
            numbers = [
                float(pick(errors[figure]))
                for pick in (np.nanmedian, np.nanmax)
                for errors in (before, after)
            ]
            cells = " ".join(f"{number:8.2%}" for number in numbers)
            yield f"{effect:24} {NAMES[figure]:18} {cells}"
