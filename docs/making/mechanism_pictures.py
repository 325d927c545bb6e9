"""The timeline of each mechanism: the same clients for all, so that two pictures can be compared.

    scenario of NAME, a profile that prices it ─► reference engine ─► Recording ─► NAME.svg

Only what a mechanism cannot do without differs: threads that block have a thread for each client,
and no idle ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dispatchsim as ds
from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.sim.state.mechanism import Trait
from dispatchsim.validation.drawing.figures import to_svg

from .mechanism_pages import priced_by

RATE = "12000/s"
IDLE = 400
BEGIN, LENGTH = "20 ms", "1 ms"
_THREADS = 8
_RUN_TO = "30 ms"


def scenario_of(name: str) -> ds.Scenario:
    """Return the scenario whose run is drawn on the page of the mechanism *name*."""
    server: dict[str, Any] = {"mechanism": name}
    idle = IDLE
    if Trait.IN_CALLS in CATALOGUE[name].mechanism.traits:
        server["workers"], idle = _THREADS, 0
    return ds.Scenario.of(
        server=server,
        load={"loop": "open", "rate": RATE},
        idle={"connections": idle},
        run={"duration": _RUN_TO, "warm_up": "10 ms"},
    )


def draw(name: str, path: Path) -> None:
    """Write the timeline of the mechanism *name* as SVG."""
    recording = ds.record(scenario_of(name), profile=priced_by(name), begin=BEGIN, length=LENGTH)
    path.write_text(to_svg(recording.timeline(), name))
