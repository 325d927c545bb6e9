"""The CPU ledger: instructions of kernel and server, compared with simulated nanoseconds.

    instructions/*.json   every instruction of a run, by kernel function ─► by activity ─┐
    profile of costs      the simulator's ledger of the same run ────────────────────────┴─► rows

On this target an instruction takes a nanosecond, so both have the same unit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...calibration.points.point import Point, StoredPoint
from ...calibration.profiles.cost import CostSource
from ...calibration.records.measured_runs import DataError
from ..forecast.forecast import Lengths
from .run_forecast import noise_free_job, simulated

FORMAT = "dispatchsim-instructions/1"
ACTIVITIES = (
    "user", "wait", "accept", "read", "write", "close", "watch", "sleep", "wake", "interrupt",
    "tick", "deferred", "fault", "observer", "other",
)  # fmt: skip
"""The activities of a request: names of the simulator, and from "tick" on further ones.

tick: the scheduler's clock; deferred: RCU, timers and threads of the kernel; fault: page faults;
observer: the process that reads the counters; other: calls that no server makes for a request.
"""
# Calls and packets of one kind, for any purpose.
_PARTS = {
    "rewatch": "watch",
    "unwatch": "watch",
    "interrupt_idle": "interrupt",
    "spawn": "other",
    "ksoftirqd": "interrupt",
    "interrupt_other": "interrupt",
    "host": "other",
    "host_other": "other",
}


class InstructionProfile(BaseModel):
    """Instructions per request by activity and by function, idling excluded, of a profiled run.

    The arrivals are those of the point's `repeat`; `busy_ns` is the time in the window that the
    kernel did not count as idle.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    format: Literal["dispatchsim-instructions/1"]
    point: StoredPoint
    replies: int = Field(ge=1)
    activities: dict[str, float]
    functions: dict[str, float] = Field(default_factory=dict)
    repeat: int = Field(default=0, ge=0)
    warm_up_ns: int = Field(default=200_000_000, ge=0)
    window_ns: int = Field(ge=1)
    busy_ns: int = Field(ge=0)


@dataclass(frozen=True)
class Ledger:
    """The CPU time of a request at one point, measured in instructions and simulated in ns.

    `busy_ns` is the time per request that the kernel did not count as idle; `functions` are the
    functions of kernel and server with the most instructions per request.
    """

    point: Point
    source: str
    n_replies: int
    measured: dict[str, float]
    simulated: dict[str, float]
    busy_ns: float
    functions: dict[str, float]


def read_profiles(folder: Path) -> dict[str, InstructionProfile]:
    """Return the instruction profiles in *folder* by file name; empty if it does not exist.

    Raises
    ------
    DataError
        With file, field and rule, when a file breaks the format.
    """
    return {path.name: _read(path) for path in sorted(folder.glob("*.json"))}


def ledgers(profiles: Mapping[str, InstructionProfile], source: CostSource) -> list[Ledger]:
    """Return the ledgers of the profiled runs, measured and simulated."""
    found = []
    for name, profile in profiles.items():
        lengths = Lengths(profile.warm_up_ns, profile.window_ns)
        seed = profile.point.seed(profile.repeat)
        forecast = simulated(noise_free_job(profile.point, seed, lengths, source))
        found.append(
            Ledger(
                point=profile.point,
                source=name,
                n_replies=profile.replies,
                measured=by_activity(profile.activities),
                simulated=by_activity(forecast.ledger_ns),
                busy_ns=profile.busy_ns / profile.replies,
                functions=profile.functions,
            )
        )
    return found


def by_activity(spent: Mapping[str, float]) -> dict[str, float]:
    """Return *spent* by `ACTIVITIES`; parts of one activity are summed.

    >>> by_activity({"watch": 700.0, "unwatch": 600.0})["watch"]
    1300.0
    """
    whole = dict.fromkeys(ACTIVITIES, 0.0)
    for name, value in spent.items():
        whole[_PARTS.get(name, name)] += value
    return whole


def _read(path: Path) -> InstructionProfile:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path.name}: not JSON ({error})") from error
    found = content.get("format") if isinstance(content, dict) else content
    if found != FORMAT:
        raise DataError(f'{path.name}: format is {found!r}, this version reads "{FORMAT}"')
    try:
        profile = InstructionProfile.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise DataError(f"{path.name}: field {name}: {first['msg']}") from error
    for name in profile.activities:
        if name not in ACTIVITIES and name not in _PARTS:
            known = ", ".join((*ACTIVITIES, *_PARTS))
            raise DataError(f'{path.name}: activities: must be of {known}, got "{name}"')
    return profile
