"""A report as JSON, for programs: everything that its tables and figures show; NaN is null."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from pydantic import BaseModel

from ..forecast.forecast import Forecast
from ..noise_free.scoring import RunScore
from ..points.measured_points import Figures, MeasuredPoint
from ..scoring.scoring import PointScore, verdicts_agree
from .hardware_section import HardwareSection
from .noise_free_section import NoiseFreeSection

FORMAT = "dispatchsim-scores/2"


def scores_json(sections: Mapping[str, Iterable[Mapping[str, Any]]]) -> str:
    """Return the scores of *sections* by kind as JSON."""
    content = {"format": FORMAT, **{kind: list(found) for kind, found in sections.items()}}
    return json.dumps(plain(content), indent=1, allow_nan=False) + "\n"


def hardware_scores(section: HardwareSection) -> dict[str, Any]:
    """Return what was found on a real machine."""
    return {
        "name": section.name,
        "provenance": section.provenance,
        "targets": [{**asdict(t), "verdict": t.verdict} for t in section.targets],
        "points": [point_score(entry) for entry in section.scores],
        "not_measured": _not_measured(section.missing),
    }


def point_score(entry: PointScore) -> dict[str, Any]:
    """Return a point beside its forecast."""
    measured = entry.measured
    spreads = zip(measured.spread._fields, measured.spread, strict=True)
    return {
        "point": asdict(measured.point),
        "role": entry.role,
        "load_share": entry.load_share,
        "measured": {
            "median": _figures(measured.median),
            "spread": {name: value._asdict() for name, value in spreads},
            "accepted": measured.n_accepted,
            "rejected": measured.n_rejected,
            "verdict": str(measured.verdict),
        },
        "forecast": _forecast(entry.forecast),
        "verdicts_agree": verdicts_agree(entry),
        "p50_counts": entry.p50_counts,
        "errors": entry.errors._asdict(),
        "inside": entry.inside._asdict(),
        "p50_at_equal_cpu": entry.p50_at_equal_cpu,
        "load_shift_cpu": entry.load_shift_cpu,
        "load_shift_p50": entry.load_shift_p50,
        "baselines": {name: e._asdict() for name, e in entry.baseline_errors.items()},
    }


def noise_free_scores(section: NoiseFreeSection) -> dict[str, Any]:
    """Return what was found on the target without noise."""
    return {
        "name": section.name,
        "provenance": section.provenance,
        "promises": [{**asdict(p), "verdict": p.verdict} for p in section.promises],
        "runs": [_run_score(score) for score in section.scores],
        "ledgers": section.ledgers,
        "not_measured": _not_measured(section.missing),
    }


def _forecast(forecast: Forecast) -> dict[str, Any]:
    """Return *forecast* as plain values; NaN becomes null."""
    return {
        "point": asdict(forecast.point),
        "central": _figures(forecast.central),
        "low": _figures(forecast.low),
        "high": _figures(forecast.high),
        "verdict": str(forecast.verdict),
        "seeds": list(forecast.seeds),
        "draws": forecast.draws,
    }


def _figures(figures: Iterable[float]) -> dict[str, float | None]:
    """Return *figures* by name; NaN becomes null."""
    return {
        name: None if math.isnan(value) else value
        for name, value in zip(Figures._fields, figures, strict=True)
    }


def _not_measured(missing: list[MeasuredPoint]) -> list[dict[str, Any]]:
    return [{"point": asdict(entry.point), "rejected": entry.n_rejected} for entry in missing]


def _run_score(score: RunScore) -> dict[str, Any]:
    return {
        "point": asdict(score.point),
        "repeat": score.record.repeat,
        "seed": score.record.seed,
        "seen_by_fit": score.seen,
        "saturated": score.saturated,
        "load_share": score.load_share,
        "measured": score.measured._asdict(),
        "forecast": score.forecast._asdict(),
        "errors": score.errors._asdict(),
        "errors_at_equal_cpu": score.at_equal_cpu._asdict(),
        "counts": {"measured": score.counts, "forecast": score.forecast_counts},
        "ledger_ns": score.ledger_ns,
        "verdict": {"measured": str(score.verdict), "forecast": str(score.forecast_verdict)},
        "baselines": {name: e._asdict() for name, e in score.baseline_errors.items()},
    }


def plain(value: Any) -> Any:
    """Return *value* as JSON knows it."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
