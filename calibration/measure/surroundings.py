"""What the machine was like beside a run: brief benches and a reference point, before and after it.

    prices ─► calm? ─► run ─► calm? ─► prices ─► ...     what follows one run precedes the next

A shared machine drifts by several per cent within minutes. Runs of one reference point between all
others show it: a point can be read relative to its neighbours. The brief benches are those on which
most points depend: their prices then, over those of the calibration, say how much of a forecast's
error is the hour's. Prices of a core that somebody else used are left out: beside them a run of a
calm moment would be read as one of another machine.
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
"""The name of the time that the server takes for a reply at the reference point."""
BRIEF_MS = 40
BENCHES: Mapping[str, str] = {
    "calls": "serve_calls --batch 8",
    "scan": "poll_scan --n 1000",
    "interrupt": "interrupt_data --burst 1 --mechanism none",
}
"""Benches by name, as a campaign has them, too; of a bench with several results, their sum."""
TIMING = Timing(warm_up_s=0.2, window_s=0.4, calibration_ms=10)
"""Of a run of the reference point."""
FRESH_S = 2.0
"""Prices that are older do not stand beside what begins now."""

Prices = Mapping[str, float]
"""ns by the name of the bench."""


class _Taken(NamedTuple):
    prices: Prices
    at_s: float


class Surroundings:
    """Prices beside runs on one testbed."""

    def __init__(self, testbed: Testbed, programs: Programs, core: CalmCore) -> None:
        self._testbed = testbed
        self._programs = programs
        self._core = core
        self._series = Series()
        self._latest: _Taken | None = None

    def around(self, measure: Callable[[], Run]) -> tuple[Run, Mapping[str, tuple[float, float]]]:
        """Return a run in a calm moment, and the prices before and after it, of calm moments, too.

        Raises
        ------
        RunError
            If a bench or the reference run fails, or *measure* does.
        """
        before = self.before()
        run = self._core.judged(measure)
        return run, beside(before, self.after())

    def before(self) -> Prices:
        """Return the prices of now: those after the last run if there are any, and fresh.

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
        """Measure the prices of now in a calm moment, none if it does not come soon or last.

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
    """Return both prices of each bench that has them."""
    return {name: (ns, after[name]) for name, ns in before.items() if name in after}
