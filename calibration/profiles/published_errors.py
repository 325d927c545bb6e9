"""Published forecast errors of a machine, beside its profile: `misses/NAME.json`.

`validation.scoring.misses` writes and reads these files. Here only the head is read, to rank
profiles.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

MISSES_FOLDER = Path(__file__).parent / "misses"


class MachineErrors(NamedTuple):
    """The published median errors of a machine's forecasts; None if there is no error.

    Errors are relative, with the sign of the majority. -0.5 is a forecast of half the measurement;
    it ranks with 1, twice the measurement.

    Attributes
    ----------
    capacity:
        Throughput of closed loops, whose server is saturated.
    p50, p99:
        Percentiles of open loops up to 80% of the capacity.
    knee:
        The load at which p99 exceeds 20 ms.
    """

    capacity: float | None
    p50: float | None
    p99: float | None
    knee: float | None


def read_errors(profile: str) -> MachineErrors | None:
    """Return the published errors of the machine of *profile*; None if not validated."""
    path = MISSES_FOLDER / f"{profile}.json"
    if not path.is_file():
        return None
    errors = json.loads(path.read_text(encoding="utf-8")).get("errors")
    return MachineErrors(**errors) if errors else None
