"""A report as JSON, for programs: the values of its tables and pictures; NaN is null."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from ...calibration.points.point import Point, stored
from ..noise_free.scoring import RunScore
from ..points.measured_points import MeasuredPoint
from ..scoring.knee import knee_errors, knees, server_of
from ..scoring.last_run import AgainstFirst, cpu_within, pairs_of
from ..scoring.misses import stated_at, stated_share
from ..scoring.regimes import SCORED, regime_errors, value_of
from ..scoring.scoring import PointScore, verdicts_agree
from ..scoring.value_verdicts import ONE_RUN, Judged
from .hardware_section import HardwareSection
from .noise_free_section import NoiseFreeSection

FORMAT = "dispatchsim-scores/2"


def scores_json(sections: Mapping[str, Iterable[Mapping[str, Any]]]) -> str:
    """Return the scores of *sections* by kind as JSON."""
    content = {"format": FORMAT, **{kind: list(found) for kind, found in sections.items()}}
    return json.dumps(plain(content), indent=1, allow_nan=False) + "\n"


def hardware_scores(section: HardwareSection) -> dict[str, Any]:
    """Return the results on a real machine."""
    return {
        "name": section.name,
        "provenance": section.provenance,
        **asked_scores(section.scores),
        "kept_up": {
            "left_out": len(section.scores) - len(section.kept_up),
            "lateness_recorded": section.knows_lateness,
            **asked_scores(section.kept_up),
        },
        "stated": section.stated and {**section.stated.made, **asked_scores(section.stated.scores)},
        "against_first": _against_first(section.against_first),
        "knee_loads": knee_loads(section.kept_up),
        "targets": [{**asdict(t), "verdict": t.verdict} for t in section.targets],
        "points": [point_score(entry) for entry in section.scores],
        "not_measured": _not_measured(section.missing),
    }


def asked_scores(scores: Sequence[PointScore]) -> dict[str, Any]:
    """Return the errors that a planner needs first: of the knee, and by regime."""
    return {"knees": knee_errors(knees(scores)), "regimes": regime_errors(scores)}


def _against_first(found: AgainstFirst) -> dict[str, Any]:
    """Return the errors of the last run and of the forecast, against the first run."""
    return {"pairs": pairs_of(found), "cpu_within": [cpu_within(scores) for scores in found]}


def knee_loads(scores: Sequence[PointScore]) -> list[dict[str, Any]]:
    """Return the loads at which p99 exceeds each bound, server by server.

    Where a curve passes the bound beyond the measured rates, its load is the end of these rates and
    `is_end` is true. `stated` is the share of the forecast CPU time that application work takes at
    the forecast load.
    """
    shares = _stated_shares(scores)
    return [
        {
            "mechanism": knee.server.server.mechanism,
            "bound_ns": knee.bound_ns,
            "measured_per_s": knee.loads_per_s[0],
            "forecast_per_s": knee.loads_per_s[1],
            "is_end": knee.is_end,
            "stated": stated_at(knee.loads_per_s[1], shares[knee.server]),
        }
        for knee in knees(scores)
        if knee.least_shift is not None
    ]


def _stated_shares(scores: Sequence[PointScore]) -> dict[Point, list[tuple[float, float]]]:
    """Return the share of application work at each rate of open loops, by server."""
    found: dict[Point, list[tuple[float, float]]] = {}
    for entry in scores:
        point, forecast = entry.measured.point, entry.forecast.central
        if point.load.loop == "open":
            work_ns = point.server.request_cpu
            share = stated_share(work_ns, forecast.throughput_per_s, forecast.cpu_busy)
            found.setdefault(server_of(point), []).append((point.rate_per_s, share))
    return found


def point_score(entry: PointScore) -> dict[str, Any]:
    """Return a point beside its forecast."""
    measured = entry.measured
    return {
        "point": measured.point,
        "role": entry.role,
        "load_share": entry.load_share,
        "measured": {
            "median": measured.median,
            "spread": measured.spread,
            "accepted": measured.n_accepted,
            "rejected": measured.n_rejected,
            "verdict": measured.verdict,
            "generator": measured.generator,
            "generator_kept_up": measured.kept_up,
        },
        "forecast": entry.forecast,
        "verdicts": {figure: _verdict(value_of(entry, figure)) for figure in SCORED},
        "verdicts_agree": verdicts_agree(entry),
        "p50_counts": entry.p50_counts,
        "errors": entry.errors,
        "inside": entry.inside,
        "p50_at_equal_cpu": entry.p50_at_equal_cpu,
        "load_shift_cpu": entry.load_shift_cpu,
        "load_shift_p50": entry.load_shift_p50,
        "baselines": entry.baseline_errors,
    }


def _verdict(found: Judged | None) -> dict[str, Any] | None:
    """Return the verdict of a value, and whether its error is within the noise of repeats."""
    if found is None:
        return None
    noise = ONE_RUN if found.in_noise is None else "within" if found.in_noise else "outside"
    return {"verdict": found.verdict, "error": found.error, "noise": noise}


def noise_free_scores(section: NoiseFreeSection) -> dict[str, Any]:
    """Return the results on the target without noise."""
    return {
        "name": section.name,
        "provenance": section.provenance,
        "promises": [{**asdict(p), "verdict": p.verdict} for p in section.promises],
        "repeated": asdict(section.repeated_summary),
        "runs": [_run_score(score) for score in section.scores],
        "ledgers": section.ledgers,
        "not_measured": _not_measured(section.missing),
    }


def _not_measured(missing: list[MeasuredPoint]) -> list[dict[str, Any]]:
    return [{"point": entry.point, "rejected": entry.n_rejected} for entry in missing]


def _run_score(score: RunScore) -> dict[str, Any]:
    return {
        "point": score.point,
        "repeat": score.record.repeat,
        "seed": score.record.seed,
        "seen_by_fit": score.seen,
        "saturated": score.saturated,
        "load_share": score.load_share,
        "measured": score.measured,
        "forecast": score.forecast,
        "errors": score.errors,
        "errors_at_equal_cpu": score.at_equal_cpu,
        "counts": {"measured": score.counts, "forecast": score.forecast_counts},
        "ledger_ns": score.ledger_ns,
        "verdict": {"measured": score.verdict, "forecast": score.forecast_verdict},
        "baselines": score.baseline_errors,
    }


def plain(value: Any) -> Any:
    """Return *value* as plain JSON values: records by their fields, NaN as null."""
    if isinstance(value, Point):
        value = stored(value)
    elif isinstance(value, BaseModel):
        value = value.model_dump()
    elif is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
