"""Measured runs against forecasts: from files to a report.

runs ─► points ─┬─► forecasts (cached) ─┬─► scores ─► targets ─► report.html, scores.json
profile ────────┴─► baselines ──────────┘                   └──► figures/*.png, *.svg
"""

from __future__ import annotations

import json
import math
import platform
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..calibration.cost_profile import Profile
from ..calibration.measured_runs import RunRecord, read_runs
from ..calibration.noise import NoiseLimits
from ..calibration.points import FIT_POINTS, Point
from ..sim.parallel import processes
from ..sim.whole_files import write_whole
from .baselines import Baseline, baselines
from .figures import save_figures
from .forecast import Forecast, Lengths, Request, forecasts, neighbours_of
from .forecast_cache import ForecastCache, figures_to_json, file_hash, source_hash, to_json
from .measured_points import MeasuredPoint, group
from .report_html import render_html
from .scoring import PointScore, score, verdicts_agree
from .targets import Target, targets

SEEDS_MAX = 3
"""Arrival seeds simulated at a point; the measured runs may have had more."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Provenance:
    """Where everything in a report comes from."""

    date: str
    profile: str
    profile_hash: str
    machine: dict[str, Any]
    steering: tuple[str, ...]
    measured_from: str
    measured_to: str
    measured_code: tuple[str, ...]
    version: str
    code: str
    python: str
    draws: int
    seeds_by_point_max: int
    noise_limits: dict[str, float]
    n_runs: int
    n_rejected: int
    rejected_by_reason: dict[str, int]
    notices: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What a validation found, and the files that hold it."""

    provenance: Provenance
    scores: list[PointScore]
    targets: list[Target]
    missing: list[MeasuredPoint]
    html_path: Path
    scores_path: Path
    figure_paths: list[Path]


def validate(
    profile_path: Path,
    runs_paths: Sequence[Path],
    output_dir: Path,
    *,
    draws: int = 20,
    workers: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Forecast every measured point, compare, and write the report into *output_dir*.

    Parameters
    ----------
    profile_path:
        The fitted profile (TOML).
    runs_paths:
        Files of raw runs. Without those of the fit point, the processor sharing baseline has
        nothing to say.
    output_dir:
        Made if missing. An interrupted validation goes on from the forecasts it finds there.
    draws:
        Of the profile's costs, for each forecast's interval.
    workers:
        Processes to simulate in; 1: this one.
    progress:
        Called with (runs simulated, runs to simulate).

    Raises
    ------
    ValueError
        If the files hold no runs.
    """
    profile = Profile.read(profile_path)
    records, notices = _read_all(runs_paths)
    if not records:
        names = ", ".join(path.name for path in runs_paths)
        raise ValueError(f"a validation needs measured runs, found none in {names}")
    measured = group(records)
    notices += _out_of_reach(measured, profile)
    output_dir.mkdir(parents=True, exist_ok=True)
    cache = ForecastCache(
        output_dir / "forecasts.jsonl", profile_hash=file_hash(profile_path), code=source_hash()
    )
    found = _forecast_all(measured, profile, cache, draws=draws, workers=workers, progress=progress)
    answers = _baselines_of(measured, profile)
    scores = score(measured, found, answers)
    provenance = _provenance(
        records,
        notices,
        profile,
        profile_path=profile_path,
        runs_paths=runs_paths,
        draws=draws,
    )
    return _write(provenance, measured, scores, output_dir)


def _write(
    provenance: Provenance,
    measured: Sequence[MeasuredPoint],
    scores: list[PointScore],
    output_dir: Path,
) -> Report:
    """Write figures, scores and, last, the page; return what they hold."""
    report = Report(
        provenance=provenance,
        scores=scores,
        targets=targets(scores),
        missing=[entry for entry in measured if not entry.measured],
        html_path=output_dir / "report.html",
        scores_path=output_dir / "scores.json",
        figure_paths=save_figures(scores, output_dir / "figures"),
    )
    write_whole(report.scores_path, scores_json(report))
    write_whole(report.html_path, render_html(report))
    return report


def _read_all(paths: Sequence[Path]) -> tuple[list[RunRecord], list[str]]:
    loaded = [read_runs(path) for path in paths]
    notices = [f"{path.name}: no such file" for path in paths if not path.exists()]
    notices += [notice for part in loaded for notice in part.notices]
    return [row for part in loaded for row in part.rows], notices


def _forecast_all(
    measured: Sequence[MeasuredPoint],
    profile: Profile,
    cache: ForecastCache,
    *,
    draws: int,
    workers: int,
    progress: Progress | None,
) -> dict[Point, Forecast]:
    """Return the forecasts of all points, from the cache where they are in it."""
    requests = [
        Request(e.point, e.seeds[:SEEDS_MAX], draws, Lengths(e.warm_up_ns, e.window_ns))
        for e in measured
        if _unknown(profile, e.point) is None
    ]
    near = [extra for request in requests for extra in neighbours_of(request)]
    taken = {request.point for request in requests}
    requests += list({r.point: r for r in near if r.point not in taken}.values())
    found = {r.point: known for r in requests if (known := cache.get(r)) is not None}
    pending = [request for request in requests if request.point not in found]
    if pending:
        with processes(workers) as executor:
            made = forecasts(pending, profile, executor=executor, progress=progress)
            for request, forecast in made:
                cache.put(request, forecast)
                found[request.point] = forecast
    return found


def _unknown(profile: Profile, point: Point) -> str | None:
    """Return why *profile* cannot price *point*, None if it can."""
    try:
        profile.costs(point.mechanism, open_connections=point.idle + point.users)
    except ValueError as error:
        return str(error)
    return None


def _out_of_reach(measured: Sequence[MeasuredPoint], profile: Profile) -> list[str]:
    """Return a sentence for what cannot be forecast, and for what is extrapolated."""
    reasons = [_unknown(profile, entry.point) for entry in measured]
    notices = [f"not forecast: {reason}" for reason in reasons if reason]
    n_open_max = max(entry.point.idle + entry.point.users for entry in measured)
    outside = profile.outside_range(n_open_max)
    return list(dict.fromkeys(notices)) + ([outside] if outside else [])


def _baselines_of(
    measured: Sequence[MeasuredPoint], profile: Profile
) -> dict[Point, dict[str, Baseline]]:
    at_fit = [e for e in measured if e.measured and e.point in FIT_POINTS]
    fit_cost_ns = None
    if at_fit:
        # A closed loop keeps the server busy, so busy time over throughput is cost per request.
        figures = at_fit[0].median
        fit_cost_ns = figures.cpu_busy / figures.throughput_per_s * 1e9
    answers = {}
    for entry in measured:
        point = entry.point
        if _unknown(profile, point):
            continue
        costs = profile.costs(point.mechanism, open_connections=point.idle + point.users)
        answers[point] = baselines(point, costs, profile.network_delay_ns, fit_cost_ns)
    return answers


def _provenance(
    records: Sequence[RunRecord],
    notices: Sequence[str],
    profile: Profile,
    *,
    profile_path: Path,
    runs_paths: Sequence[Path],
    draws: int,
) -> Provenance:
    rejected = Counter(r.reason.split(" ")[0] or "unknown" for r in records if not r.accepted)
    dates = sorted(record.date for record in records)
    return Provenance(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        profile=profile.name,
        profile_hash=file_hash(profile_path),
        machine=_machine(runs_paths),
        steering=tuple(sorted({record.steering for record in records})),
        measured_from=dates[0],
        measured_to=dates[-1],
        measured_code=tuple(sorted({record.code for record in records})),
        version=_version(),
        code=source_hash(),
        python=platform.python_version(),
        draws=draws,
        seeds_by_point_max=SEEDS_MAX,
        noise_limits=asdict(NoiseLimits()),
        n_runs=len(records),
        n_rejected=sum(rejected.values()),
        rejected_by_reason=dict(sorted(rejected.items())),
        notices=tuple(notices),
    )


def _machine(runs_paths: Sequence[Path]) -> dict[str, Any]:
    """Return the machine's facts from beside the first runs that have them."""
    for path in runs_paths:
        try:
            facts = json.loads((path.parent / "machine.json").read_text())
        except (OSError, ValueError):
            continue
        if isinstance(facts, dict):
            return facts
    return {}


def _version() -> str:
    try:
        return version("dispatchsim")
    except PackageNotFoundError:
        return "not installed"


def scores_json(report: Report) -> str:
    """Return the whole report as JSON; NaN becomes null."""
    content = {
        "format": "dispatchsim-scores/1",
        "provenance": _plain(report.provenance),
        "targets": [{**_plain(t), "verdict": t.verdict} for t in report.targets],
        "points": [_score_json(entry) for entry in report.scores],
        "not_measured": [
            {"point": asdict(e.point), "rejected": e.n_rejected} for e in report.missing
        ],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _score_json(entry: PointScore) -> dict[str, Any]:
    measured = entry.measured
    spreads = zip(measured.spread._fields, measured.spread, strict=True)
    return {
        "point": asdict(measured.point),
        "role": entry.role,
        "load_share": entry.load_share,
        "measured": {
            "median": figures_to_json(measured.median),
            "spread": {name: _plain(value._asdict()) for name, value in spreads},
            "accepted": measured.n_accepted,
            "rejected": measured.n_rejected,
            "verdict": str(measured.verdict),
        },
        "forecast": to_json(entry.forecast),
        "verdicts_agree": verdicts_agree(entry),
        "p50_counts": entry.p50_counts,
        "errors": entry.errors._asdict(),
        "inside": entry.inside._asdict(),
        "p50_at_equal_cpu": entry.p50_at_equal_cpu,
        "load_shift_cpu": entry.load_shift_cpu,
        "load_shift_p50": entry.load_shift_p50,
        "baselines": {name: e._asdict() for name, e in entry.baseline_errors.items()},
    }


def _plain(value: Any) -> Any:
    """Return *value* as JSON knows it."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
