"""Grids as data: the points that the campaigns of each target measure, and that a fit may use.

    hardware.toml, emulated.toml ──► Grids ──points("fit")──────► the only input of a fit
                                           ──points("held_out")─► what a profile must predict
    impatient.toml ────────────────► Grids ──points("capacity")─► the capacity for its loads
                                           ──points("open")─────► clients that give up
    kept.toml ─────────────────────► Grids ──points("open")─────► connections that are kept

A file has stages, a stage has grids, and a grid has the keys of scenarios:

    [[held_out.closed]]
    server.mechanism = ["select", "poll"]   # a list: each of its values, the last key first
    loads = [                               # tables of keys that go together, under any name
        { load = { loop = "closed", users = 64 } },
        { load.of_capacity = [0.5, 1.1] },  # an open loop at these shares of the capacity
    ]

    [of]                                    # defaults of a mechanism, unless a grid overrides
    rt_signals.server.signal_queue = 1024

A share counts requests: connections with several requests come at a lower rate. Bursts come at
multiples of 10 ms, so that a window holds whole distances. `load.of_application` is a share of the
capacity with an application that takes `server.request_cpu` per request; with kept connections, of
the capacity over kept connections.

On hardware, fit points of one mechanism serve all: user code takes equal time per request, and
differences between mechanisms have costs.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from ...scenario.errors import ScenarioError
from ...scenario.quantities import DURATION, RATE
from ...sim.state.units import SECOND_NS
from .point import BLOCKING, Point, Steering, point_at, stored

IO_URING = "io_uring"
RINGS = ("aio_poll", IO_URING)
"""Mechanisms that report through a ring in the server's memory."""
MECHANISMS = ("select", "poll", "epoll_level")
FURTHER_MECHANISMS = (
    "rt_signals", "signalfd", "epoll_edge", "epoll_once", "epoll_oneshot", "epoll_close",
    IO_URING, BLOCKING,
)  # fmt: skip
STOCK_MECHANISMS = (*MECHANISMS, *FURTHER_MECHANISMS)
"""Mechanisms of a stock Linux (io_uring if allowed), which campaigns on hardware measure: the
further ones on a small grid."""
SIGNALS = ("rt_signals", "signal_per_fd", "sigtimedwait4", "signalfd")
"""Mechanisms whose servers are notified by signals."""
SIGNALS_QUEUE = 1_024
"""The size of a signal queue in the literature: Provos and Lever 2000, section 5."""
FIT_WORKERS = 64
"""Threads of a blocking server: one for each user of the fit point."""

_BURST_GRAIN_S = 0.01
_SHARE, _APPLICATION_SHARE = _SHARES = ("load.of_capacity", "load.of_application")

Keys = Mapping[str, Any]
"""Values of a point by key, such as `load.users`."""


class Grids(NamedTuple):
    """The grids of a file; `usual` holds the default keys of each mechanism."""

    file: str
    stages: Mapping[str, Any]
    usual: Mapping[str, Keys]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the grids of the file at *path*.

        Raises
        ------
        ScenarioError
            If the file is not TOML, or a mechanism's defaults break a rule.
        """
        try:
            stages = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ScenarioError(f"{path.name}: is not TOML: {error}") from None
        usual = {
            mechanism: {
                f"{section}.{field}": value
                for section, fields in sections.items()
                for field, value in fields.items()
            }
            for mechanism, sections in stages.pop("of", {}).items()
        }
        grids = cls(path.name, stages, usual)
        for mechanism in usual:
            grids.point({"server.mechanism": mechanism, _SHARE: 1}, 1000, f"of.{mechanism}")
        return grids

    def points(
        self,
        stage: str,
        name: str = "",
        *,
        capacity_per_s: float = 1,
        kept_per_s: float | None = None,
    ) -> list[Point]:
        """Return the distinct points of a stage, or of its grids of one name, in their order.

        Rates are shares of *capacity_per_s*, the throughput of the first fit point. With an
        application and kept connections they are shares of *kept_per_s*; None: *capacity_per_s*.

        Raises
        ------
        ScenarioError
            If a key breaks a rule; with file, grid, key, rule and value.
        ValueError
            If the capacity is not above 0.
        """
        if capacity_per_s <= 0:
            raise ValueError(f"capacity_per_s must be above 0, got {capacity_per_s}")
        named = self.stages[stage]
        if isinstance(named, list):
            named = {"": named}
        points = (
            self.point(
                keys, capacity_per_s, ".".join(filter(None, (stage, one))), kept_per_s=kept_per_s
            )
            for one, tables in named.items()
            if name in ("", one)
            for table in tables
            for keys in _combinations(table)
        )
        return list(dict.fromkeys(points))

    def point(
        self,
        keys: Keys,
        capacity_per_s: float,
        grid: str = "point",
        *,
        kept_per_s: float | None = None,
    ) -> Point:
        """Return the point of *keys* with its mechanism's defaults; errors as of `points`.

        >>> EMULATED.point({"server.mechanism": "signalfd", "load.of_capacity": 0.5}, 20_000).label
        'signalfd idle 0 open 10000/s queue 1024'
        """
        keys = {**self.usual.get(str(keys.get("server.mechanism")), {}), **keys}
        source = f"{self.file}: {grid}"
        content: dict[str, Any] = {}
        if _SHARE in keys:
            rate = _rate(keys, _SHARE, capacity_per_s, source)
            keys = {"load.loop": "open", **keys, "load.rate": rate}
        elif _APPLICATION_SHARE in keys:
            base_per_s = kept_per_s if kept_per_s and "load.connections" in keys else capacity_per_s
            left_per_s = _beside_application(keys, base_per_s, source)
            rate = _rate(keys, _APPLICATION_SHARE, left_per_s, source)
            keys = {"load.loop": "open", **keys, "load.rate": rate}
        for key, value in keys.items():
            section, _, field = key.rpartition(".")
            if key not in _SHARES:
                (content.setdefault(section, {}) if section else content)[field] = value
        # Points of grids equal those of measured rows, which omit defaults.
        return point_at(**stored(Point.check(content, source)))


def _combinations(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the keys of each point of a grid, the last key changing first.

    >>> [keys["load.users"] for keys in _combinations({"load": {"users": [4, 64]}})]
    [4, 64]
    """
    factors: list[list[Keys]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            factors += [_levels(f"{name}.{field}", one) for field, one in value.items()]
        elif isinstance(value, list) and all(isinstance(one, dict) for one in value):
            factors.append([keys for one in value for keys in _combinations(one)])
        else:
            factors.append(_levels(name, value))
    for chosen in itertools.product(*factors):
        yield {key: value for keys in chosen for key, value in keys.items()}


def _levels(key: str, value: Any) -> list[Keys]:
    return [{key: one} for one in (value if isinstance(value, list) else [value])]


def _beside_application(keys: Keys, base_per_s: float, source: str) -> float:
    """Return the capacity if each request of *base_per_s* also takes `server.request_cpu`."""
    text = str(keys.get("server.request_cpu", "0 us"))
    try:
        application_ns = DURATION.parse(text)
    except ValueError as error:
        raise ScenarioError(f"{source}: server.request_cpu: {error}") from None
    return 1 / (1 / base_per_s + application_ns / SECOND_NS)


def _rate(keys: Keys, share_key: str, capacity_per_s: float, source: str) -> str:
    """Return the connections/s of an open loop at a share of the capacity."""
    share, n_requests, burst = keys[share_key], keys.get("load.requests", 1), keys.get("burst", 1)
    for key, value in ((share_key, share), ("load.requests", n_requests), ("burst", burst)):
        if not isinstance(value, int | float) or value <= 0:
            raise ScenarioError(f"{source}: {key}: must be a number above 0, got {value}")
    rate_per_s = capacity_per_s * (share / n_requests)
    if burst == 1:
        return RATE.format(round(rate_per_s))
    n_grains = math.ceil(burst / rate_per_s / _BURST_GRAIN_S)
    return RATE.format(math.ceil(burst / (n_grains * _BURST_GRAIN_S)))


HARDWARE = Grids.read(Path(__file__).with_name("hardware.toml"))
IMPATIENT = Grids.read(Path(__file__).with_name("impatient.toml"))
KEPT = Grids.read(Path(__file__).with_name("kept.toml"))
EMULATED = Grids.read(Path(__file__).with_name("emulated.toml"))
"""Points of the released kernel, and of the kernel with mechanisms that were never merged."""

FIT_POINT, KEPT_FIT_POINT = FIT_POINTS = tuple(HARDWARE.points("fit"))
"""The second has several requests per connection, so its throughput gives the connection's cost."""
EMULATED_FIT_POINTS = EMULATED.points("fit", "merged")
FIT_POINTS_OF: dict[Steering, Sequence[Point]] = {
    "namespaces": FIT_POINTS,
    "far_end": FIT_POINTS,
    "loopback": FIT_POINTS,
    "emulated": EMULATED.points("fit"),
}
"""The points that a fit may use, by kind of target; the first gives the cost that all share.

Points of mechanisms that a target lacks have no runs.
"""
RATE_POINTS = (FIT_POINT,)
"""Points whose runs only measure the capacity for the rates of held-out points."""


def held_out_points(
    capacity_per_s: float,
    *,
    kept_per_s: float | None = None,
    quick: bool = False,
    mechanisms: Sequence[str] = STOCK_MECHANISMS,
) -> list[Point]:
    """Return all points on hardware that a fit must not use; *quick* keeps about one in eight.

    *capacity_per_s* and *kept_per_s* are as in `Grids.points`.

    >>> len(held_out_points(20_000, mechanisms=["poll"], quick=True))
    5
    """
    points = HARDWARE.points(
        "quick" if quick else "held_out", capacity_per_s=capacity_per_s, kept_per_s=kept_per_s
    )
    return [
        point
        for point in points
        if point.server.mechanism in mechanisms and point not in FIT_POINTS
    ]
