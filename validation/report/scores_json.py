"""A report as JSON, for programs: everything that its tables and figures show; NaN is null."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from ..forecast.forecast_cache import figures_to_json, to_json
from ..noise_free.scoring import RunScore
from ..points.measured_points import MeasuredPoint
from ..scoring.scoring import PointScore, verdicts_agree
from .hardware_section import HardwareSection
from .noise_free_section import NoiseFreeSection

if TYPE_CHECKING:
    from .report import Report

FORMAT = "dispatchsim-scores/2"


def scores_json(report: Report) -> str:
    """Return the whole report as JSON."""
    content = {
        "format": FORMAT,
        "hardware": [_hardware(section) for section in report.hardware],
        "noise_free": [_noise_free(section) for section in report.noise_free],
        "effects": [effect.model_dump() for effect in report.effects],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _hardware(section: HardwareSection) -> dict[str, Any]:
    return {
        "name": section.name,
        "provenance": plain(section.provenance),
        "targets": [{**plain(t), "verdict": t.verdict} for t in section.targets],
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
            "median": figures_to_json(measured.median),
            "spread": {name: plain(value._asdict()) for name, value in spreads},
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


def _noise_free(section: NoiseFreeSection) -> dict[str, Any]:
    return {
        "name": section.name,
        "provenance": plain(section.provenance),
        "promises": [{**plain(p), "verdict": p.verdict} for p in section.promises],
        "runs": [_run_score(score) for score in section.scores],
        "ledgers": [plain(ledger) for ledger in section.ledgers],
        "not_measured": _not_measured(section.missing),
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
        "measured": plain(score.measured._asdict()),
        "forecast": plain(score.forecast._asdict()),
        "errors": score.errors._asdict(),
        "errors_at_equal_cpu": score.at_equal_cpu._asdict(),
        "counts": {"measured": plain(score.counts), "forecast": plain(score.forecast_counts)},
        "ledger_ns": plain(score.ledger_ns),
        "verdict": {"measured": str(score.verdict), "forecast": str(score.forecast_verdict)},
        "baselines": {name: e._asdict() for name, e in score.baseline_errors.items()},
    }


def plain(value: Any) -> Any:
    """Return *value* as JSON knows it."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
