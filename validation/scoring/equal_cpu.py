"""The equal-CPU test: whether costs make response times wrong, or the shape of the model.

    p50 │            / forecast      at equal load: the vertical distance, at the measured rate
        │           /  o measured    at equal CPU: the same where the forecast CPU is as busy as
        │ _________/                 measured, which is at another rate
        └────────────────── load

Costs that are too high make the CPU too busy, and requests queue earlier. That error is gone at
equal CPU. What remains does not come from the level of the costs: it is a delay without work, or a
queue that the model forms differently.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from .regimes import noise_of
from .scoring import PointScore

Cause = Literal["right", "costs too high", "costs too low", "partly costs", "delays or model"]
GONE, REMAINS = 1 / 3, 2 / 3
"""An error at equal CPU of up to the first share is gone; one of the second or more remains."""


class EqualCpu(NamedTuple):
    """The median p50 errors of one server over the loads up to its capacity.

    Attributes
    ----------
    server, n:
        Its name, and the number of points.
    noise:
        The size up to which the error may be noise, as in `regimes.noise_of`.
    at_equal_load, at_equal_cpu:
        The error at the measured load, and where the forecast CPU is as busy as measured.
    shift_cpu:
        The change of load at which the forecast CPU is as busy as measured.
    """

    server: str
    n: int
    noise: float
    at_equal_load: float
    at_equal_cpu: float
    shift_cpu: float

    @property
    def cause(self) -> Cause:
        """What the errors come from.

        >>> EqualCpu("poll", 5, 0.03, 0.4, 0.05, -0.1).cause
        'costs too high'
        >>> EqualCpu("poll", 5, 0.03, 0.4, 0.35, -0.01).cause
        'delays or model'
        """
        if abs(self.at_equal_load) <= self.noise:
            return "right"
        share = abs(self.at_equal_cpu / self.at_equal_load)
        if share >= REMAINS:
            return "delays or model"
        if share > GONE:
            return "partly costs"
        return "costs too high" if self.at_equal_load > 0 else "costs too low"


def equal_cpu(scores: Iterable[PointScore], name: Callable[[PointScore], str]) -> list[EqualCpu]:
    """Return the test of each server, by its *name*, at the points `allowing` it."""
    servers: dict[str, list[PointScore]] = {}
    for score in allowing(scores):
        servers.setdefault(name(score), []).append(score)
    return [_test(server, own) for server, own in sorted(servers.items())]


def allowing(scores: Iterable[PointScore]) -> list[PointScore]:
    """Return the held-out points that allow the test.

    They are of open loops up to the capacity, and at a load near the measured one the forecast CPU
    is as busy as measured.
    """
    return [
        score
        for score in scores
        if score.p50_at_equal_cpu is not None and score.errors.p50 is not None
        if score.load_share is not None and score.load_share <= 1 and score.role != "fit"
    ]


def _test(server: str, points: Sequence[PointScore]) -> EqualCpu:
    return EqualCpu(
        server,
        len(points),
        statistics.median(noise_of(score, "p50_ns") for score in points),
        *(
            statistics.median(value for value in values if value is not None)
            for values in (
                [score.errors.p50 for score in points],
                [score.p50_at_equal_cpu for score in points],
                [score.load_shift_cpu for score in points],
            )
        ),
    )
