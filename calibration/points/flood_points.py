"""Floods: the arrival times of datagrams, and the floods that a fit of costs may use.

    calibration   trains that come alone: one packet, two at a distance, n at once, with pauses
                  long enough for all their work                    ──► the only input of the fit
    held out      rates from 1,000/s to the sender's maximum, even and random, packets of one
                  datagram and of several                           ──► what the costs must predict

The receiver splits a packet of several datagrams (UDP_SEGMENT). With one datagram a packet, a
sender is no faster than a receiver; only with several can it send more than the receiver handles.

Source: Mogul and Ramakrishnan 1997, "Eliminating receive livelock in an interrupt-driven kernel".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ...sim.load.streams import generator
from ...sim.state.units import SECOND_NS
from .point import seed_of

US_NS = 1_000

Use = Literal["calibration", "heldout"]
ALL_IT_CAN_PER_S = 1_000_000.0
"""More than any sender can send: its calls follow each other without a pause."""

PERIODS_US = (25, 40, 60, 100, 200, 400, 1000, 4000)
"""Times between packets that come alone."""
DISTANCES_US = (10, 12, 14, 16, 18, 20, 25)
"""Times between the packets of a pair, to find when the second has its own interrupt."""
PAIR_PERIODS_US = (50, 1000)
"""Time between the starts of pairs."""
TRAINS = (4, 8, 16, 32, 64, 128)
SEGMENTS = (2, 4, 8, 16)
PAUSE_US = 3000
"""Time after a train, long enough to handle all of it."""
SEGMENTS_PERIODS_US = (100, 1000)
UNSTEERED_PER_S = (20_000.0, 250_000.0)
HELD_OUT_PER_S = (
    1500.0, 3000.0, 7000.0, 15_000.0, 30_000.0, 50_000.0, 75_000.0,
    120_000.0, 180_000.0, 300_000.0,
)  # fmt: skip
ALSO_NICE_0_PER_S = (7000.0, 30_000.0, 120_000.0)
BURSTS_PER_S = (15_000.0, 75_000.0)
OF_SEGMENTS_PER_S = ((8, 3000.0), (8, 12_000.0), (8, 30_000.0), (16, 6000.0))
OVERLOADS = (8, 16, 32)
"""Datagrams per packet in floods at full speed."""
HIGH = -20
"""A nice value at which other programs do not delay the process; interrupts ignore it."""


class FloodPoint(BaseModel):
    """One flood: *rate_per_s* packets a second of *segments* datagrams each, *train* at a time.

    Trains begin evenly or as a Poisson process; packets of a train are due *spacing_ns* apart.
    *nice* is the nice value of the process that computes. If a flood is not *steered*, the sender's
    CPU receives it, so it does not interrupt the process.

    A flood is not a scenario, because it has no server and no connections. In the section [flood]
    of a scenario packets arrive at random times. Here they arrive at the end of a sender's call,
    late by the cost of calls. The time that an interrupt waits for more packets is a cost, too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    use: Use
    rate_per_s: float = Field(gt=0)
    law: Literal["constant", "poisson"] = "constant"
    train: int = Field(default=1, ge=1)
    spacing_ns: int = Field(default=0, ge=0)
    segments: int = Field(default=1, ge=1, le=40)
    nice: int = Field(default=HIGH, ge=-20, le=19)
    steered: bool = True

    @property
    def label(self) -> str:
        """A short name for people."""
        train = f", trains of {self.train}" if self.train > 1 else ""
        spacing = f" {self.spacing_ns / US_NS:g} us apart" if self.spacing_ns else ""
        segments = f", {self.segments} segments" if self.segments > 1 else ""
        nice = f", nice {self.nice}" if self.nice != HIGH else ""
        steered = "" if self.steered else ", unsteered"
        return f"{self.rate_per_s:,.0f}/s {self.law}{train}{spacing}{segments}{nice}{steered}"

    def seed(self, repeat: int) -> int:
        """Return the seed of one repeat, which depends only on point and repeat."""
        return seed_of(f"{self.model_dump_json()} {repeat}")

    def due_ns(self, repeat: int, length_ns: int) -> NDArray[np.int64]:
        """Return the due times of the packets of a flood of *length_ns*, from its start."""
        period_ns = self.train / self.rate_per_s * SECOND_NS
        n_trains = max(1, int(length_ns / period_ns))
        if self.law == "constant":
            begins_ns = np.arange(n_trains) * period_ns
        else:
            draws = generator(self.seed(repeat), "flood").exponential(
                period_ns, n_trains + 10 * int(n_trains**0.5 + 1)
            )
            begins_ns = np.cumsum(draws)
        within = np.arange(self.train) * self.spacing_ns
        due_ns = (begins_ns[:, None] + within).ravel()
        due_ns = due_ns[due_ns < length_ns] if begins_ns[0] < length_ns else due_ns[:1]
        return np.sort(due_ns.astype(np.int64))


def flood_points() -> Sequence[FloodPoint]:
    """Return all floods of a campaign, calibration floods first."""
    return [*_calibration(), *_held_out()]


def _calibration() -> list[FloodPoint]:
    """Return the floods whose trains come alone, and floods that cause no interrupts."""

    def alone(
        period_us: float, train: int = 1, spacing_ns: int = 0, segments: int = 1
    ) -> FloodPoint:
        return FloodPoint(
            use="calibration",
            rate_per_s=train * 1e6 / period_us,
            train=train,
            spacing_ns=spacing_ns,
            segments=segments,
        )

    return [
        *(alone(period) for period in PERIODS_US),
        *(
            alone(period, train=2, spacing_ns=distance * US_NS)
            for period, distance in product(PAIR_PERIODS_US, DISTANCES_US)
        ),
        *(alone(PAUSE_US, train=n) for n in TRAINS),
        *(alone(p, segments=n) for p, n in product(SEGMENTS_PERIODS_US, SEGMENTS)),
        *(
            FloodPoint(use="calibration", rate_per_s=rate, steered=False)
            for rate in UNSTEERED_PER_S
        ),
    ]


def _held_out() -> list[FloodPoint]:
    """Return the floods that a fit must not use."""

    def flood(rate_per_s: float, nice: int = HIGH, segments: int = 1, train: int = 1) -> FloodPoint:
        return FloodPoint(
            use="heldout",
            rate_per_s=rate_per_s,
            law="poisson" if train > 1 else "constant",
            nice=nice,
            segments=segments,
            train=train,
        )

    steady = [flood(rate) for rate in HELD_OUT_PER_S]
    return [
        *steady,
        *(point.model_copy(update={"law": "poisson"}) for point in steady),
        *(flood(rate, nice=0) for rate in ALSO_NICE_0_PER_S),
        *(flood(rate, train=16) for rate in BURSTS_PER_S),
        *(flood(rate, segments=n) for n, rate in OF_SEGMENTS_PER_S),
        flood(ALL_IT_CAN_PER_S),
        *(
            flood(ALL_IT_CAN_PER_S, nice=nice, segments=n)
            for n, nice in product(OVERLOADS, (HIGH, 0))
        ),
    ]
