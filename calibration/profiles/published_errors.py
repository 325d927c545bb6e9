"""How far forecasts of a machine were off, as published beside its profile: `misses/NAME.json`.

`validation.scoring.misses` writes and reads the whole of such a file; its head is enough to rank
profiles by.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

MISSES_FOLDER = Path(__file__).parent / "misses"


class MachineErrors(NamedTuple):
    """The middle errors of a machine's forecasts, as published; None where there is none.

    They are relative and have the sign of most: -0.5 is half of what was measured, as far off as 1.

    Attributes
    ----------
    capacity:
        Of closed loops, and of open ones past it.
    p50, p99:
        Of open loops up to 80% of the capacity.
    knee:
        Of the load at which p99 passes 20 ms.
    """

    capacity: float | None
    p50: float | None
    p99: float | None
    knee: float | None


def read_errors(profile: str) -> MachineErrors | None:
    """Return the published errors of the machine of *profile*; None if it was never validated."""
    path = MISSES_FOLDER / f"{profile}.json"
    if not path.is_file():
        return None
    errors = json.loads(path.read_text(encoding="utf-8")).get("errors")
    return MachineErrors(**errors) if errors else None
