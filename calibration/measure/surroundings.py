"""The state of the machine beside a run: brief benches and a reference point, before and after.

    costs ─► calm? ─► run ─► calm? ─► costs ─► ...     costs after one run are before the next

A shared machine drifts by several per cent within minutes. Runs of one reference point between all
other runs show the drift, so a run can be compared with its neighbours. Most points depend on the
costs of the brief benches: the ratio of these costs to the calibration shows how much of a
forecast's error is due to drift. Costs measured on a shared core are omitted, because a run in a
calm moment does not match them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..points.points import FIT_POINT
from ..records.noise import Series
from ..testbed.c_build import Programs
from ..testbed.testbed import Testbed
from .calm import PATIENCE_BESIDE_S, CalmCore, Run
from .macro import Timing, run_point
from .microbenchmarks import run_bench

REFERENCE = "reference"
"""The name of the server's time for a reply at the reference point."""
BRIEF_MS = 40
BENCHES: Mapping[str, str] = {
    "calls": "serve_calls --batch 8",
    "scan": "poll_scan --n 1000",
    "interrupt": "interrupt_data --burst 1 --mechanism none",
    "handshake": "handshake_spin --pause-us 100",
    "handshake_idle": "handshake_idle --pause-us 100",
}
"""Benches by name, as in a campaign; several results of a bench are added."""
TIMING = Timing(warm_up_s=0.2, window_s=0.4, calibration_ms=10)
"""The timing of a run at the reference point."""
FRESH_S = 2.0
"""Older costs are measured again before the next run."""

Prices = Mapping[str, float]
"""Costs in ns, by bench."""


class _Taken(NamedTuple):
    prices: Prices
    at_s: float


class Surroundings:
    """Costs beside runs on one testbed."""

    def __init__(self, testbed: Testbed, programs: Programs, core: CalmCore) -> None:
        self._testbed = testbed
        self._programs = programs
        self._core = core
        self._series = Series()
        self._latest: _Taken | None = None

    def around(self, measure: Callable[[], Run]) -> tuple[Run, Mapping[str, tuple[float, float]]]:
        """Return a run in a calm moment, and the costs in calm moments before and after it.

        Raises
        ------
        RunError
            If a bench or the reference run fails, or *measure* does.
        """
        before = self.before()
        run = self._core.judged(measure)
        return run, beside(before, self.after())

    def before(self) -> Prices:
        """Return the current costs: those after the last run if they are fresh.

        Raises
        ------
        RunError
            If a bench or the reference run fails.
        """
        latest = self._latest
        if latest and latest.prices and time.monotonic() - latest.at_s < FRESH_S:
            return latest.prices
        return self.after()

    def after(self) -> Prices:
        """Measure the current costs in a calm moment; empty if none comes soon or it does not last.

        Errors are those of `before`.
        """
        call_ns = self._core.wait(PATIENCE_BESIDE_S)
        prices = self._measured() if self._core.is_calm(call_ns) else {}
        if prices and not self._core.is_calm(self._core.since(call_ns).floor_ns):
            prices = {}
        self._latest = _Taken(prices, time.monotonic())
        return prices

    def _measured(self) -> Prices:
        prices = {name: self._price_ns(command) for name, command in BENCHES.items()}
        run = run_point(
            FIT_POINT,
            0,
            testbed=self._testbed,
            programs=self._programs,
            series=self._series,
            timing=TIMING,
        )
        if run.accepted and run.result.replied:
            prices[REFERENCE] = round(run.window_ns / run.result.replied, 1)
        return prices

    def _price_ns(self, command: str) -> float:
        rows = run_bench(
            f"{command} --milliseconds {BRIEF_MS}",
            0,
            testbed=self._testbed,
            programs=self._programs,
        )
        return round(sum(row.median for row in rows), 1)


def beside(before: Prices, after: Prices) -> dict[str, tuple[float, float]]:
    """Return both costs of each bench that has both."""
    return {name: (ns, after[name]) for name, ns in before.items() if name in after}
