"""The medians of the microbenchmarks, and functions that all equations share.

    micro.jsonl ──► lines x fields x rounds ──medians of some rounds──► points of a bench
                points ──► lines and curves ──► Known: table.name ──first, at_one──► further

A line is a bench with its parameters; a round runs each line once. Resampling whole rounds keeps
results of the same slow period of the machine together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..records.measured_runs import MicroResult
from ..records.noise import in_calm
from .curve_fit import CurveFit, Floats, fit_curve, fit_line

ON_LOOPBACK = "none: on loopback the sender's CPU receives"
BATCH, REPLY_BYTES = 64, 128
"""The batch of the server's calls, as at the fit point."""
FEW, MANY_AT_ONCE = 8, 64  # connections of a batch: all in the allocator's lists, or not
MANY = 1000  # descriptors that a bench has beside the measured ones
CALLS: dict[str, int | str] = {"reply": REPLY_BYTES, "mechanism": "epoll"}


class Fitted(NamedTuple):
    """A cost as a curve (`at` of one entry: a constant), and its source."""

    at: tuple[int, ...]
    value: tuple[float, ...]
    residual: float
    source: str

    def staying(self) -> Fitted:
        """Return the curve that keeps its last value: nothing was measured beyond it."""
        at, value = (*self.at, self.at[-1] + 1), (*self.value, self.value[-1])
        return self._replace(at=at, value=value)


Known = dict[str, Fitted]
"""Solved costs by table and name: "poll.scan"."""


def curve(fit: CurveFit, source: str) -> Fitted:
    """Return a cost that follows a fitted curve."""
    return Fitted(fit.at, fit.ns, fit.residual, source)


def constant(value: float, residual: float, source: str) -> Fitted:
    """Return a cost that is equal for all counts; a negative value counts as 0."""
    return Fitted((0,), (max(0.0, value),), residual, source)


_FIELDS = (
    "median", "p10", "p90", "interrupts_per_operation", "cpu_ns", "busy_ns", "latency_ns",
    "stolen_ns", "awake_ns", "begin_ns", "unarmed_ns", "written_ns", "few_interrupts",
    "many_interrupts",
)  # fmt: skip

_P10_TO_P90 = 2.563
"""The distance of the 10% and 90% quantiles of a normal distribution, in standard deviations."""


class FitError(ValueError):
    """Costs cannot be derived. The message names file, bench, rule and value."""


class Medians:
    """The medians of all lines of the microbenchmarks over some rounds."""

    def __init__(
        self,
        lines: Sequence[tuple[str, dict[str, int | float | str]]],
        values: Floats,
        *,
        steering: str,
    ) -> None:
        self._lines = lines
        self._values = values
        self.steering = steering

    @property
    def loopback(self) -> bool:
        """Whether client and server received on one CPU, which gives fewer costs."""
        return self.steering == "loopback"

    @property
    def of_packets(self) -> bool:
        """Whether the clients sent packets of their own, without a kernel's TCP."""
        return self.steering == "far_end"

    def points(
        self,
        bench: str,
        over: str,
        where: Mapping[str, int | str] = {},
        *,
        least: int = 1,
        field: str = "median",
    ) -> list[tuple[int, float]]:
        """Return (parameter *over*, *field*) of the lines of *bench* that match *where*.

        Raises
        ------
        FitError
            If fewer than *least* lines differ in *over*.
        """
        column = _FIELDS.index(field)
        found = [
            (int(parameters.get(over, 0)), float(self._values[i, column]))
            for i, (name, parameters) in enumerate(self._lines)
            if name == bench and all(parameters.get(key) == given for key, given in where.items())
        ]
        found = sorted(point for point in found if not np.isnan(point[1]))
        if len({at for at, _ in found}) < least:
            wanted = "".join(f" {key} {given}" for key, given in where.items())
            results = "1 result" if least == 1 else f"{least} results that differ in {over}"
            raise FitError(
                f"micro.jsonl: {bench}{wanted}: must have at least {results}, got {len(found)}"
            )
        return found

    def one(
        self, bench: str, where: Mapping[str, int | str] = {}, *, field: str = "median"
    ) -> float:
        """Return *field* of the line of *bench* that matches *where*, or of the middle line."""
        values = [value for _, value in self.points(bench, "", where, field=field)]
        return float(np.median(values))

    def has(self, bench: str) -> bool:
        """Return whether *bench* was measured."""
        return any(name == bench for name, _ in self._lines)

    def values_of(self, bench: str, parameter: str) -> list[int | float | str]:
        """Return the distinct values of a parameter in the lines of *bench*, sorted."""
        given = {
            line[parameter] for name, line in self._lines if name == bench if parameter in line
        }
        return sorted(given, key=lambda value: (isinstance(value, str), value))


def columns(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    """Return the points as two lists."""
    return [at for at, _ in points], [ns for _, ns in points]


class MicroTable:
    """All microbenchmark results as an array of lines, fields and rounds."""

    def __init__(self, rows: Sequence[MicroResult]) -> None:
        rows = _calm(rows)
        rounds = {number: i for i, number in enumerate(sorted({row.round for row in rows}))}
        keys = [(row.bench, tuple(sorted(row.parameters.items()))) for row in rows]
        index = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        self.n_rounds = len(rounds)
        self._lines = [(bench, dict(parameters)) for bench, parameters in index]
        self._values = np.full((len(index), len(_FIELDS), len(rounds)), np.nan)
        for row, key in zip(rows, keys, strict=True):
            extra = row.model_extra or {}
            known = {"median": row.median, "p10": row.p10, "p90": row.p90, **extra}
            fields = [known.get(name, np.nan) for name in _FIELDS]
            self._values[index[key], :, rounds[row.round]] = fields
        self._all = _median(self._values)
        given = {row.steering for row in rows}
        if {"namespaces", "far_end"} <= given:
            raise FitError(
                "micro.jsonl: steering: must be namespaces or far_end, got both: their "
                "clients load the server's CPU differently"
            )
        # Rounds may differ: one on loopback limits the whole table to the costs of loopback.
        self.steering = "loopback" if "loopback" in given else max(given, default="")

    def medians(self, rounds: NDArray[np.int64] | None = None) -> Medians:
        """Return the medians over all rounds, or over *rounds*, which may repeat.

        A line that none of *rounds* has is taken from all rounds.
        """
        if rounds is None:
            return Medians(self._lines, self._all, steering=self.steering)
        picked = _median(self._values[:, :, rounds])
        values = np.where(np.isnan(picked), self._all, picked)
        return Medians(self._lines, values, steering=self.steering)

    def disturbed(self, random: np.random.Generator) -> Medians:
        """Return the medians, each multiplied by a random factor of the scatter in its bench.

        The scatter of a bench's median between rounds is unknown with one round. On three machines
        with two and three rounds (calibration/measured) it was 0.4 to 1.0 times the scatter within
        a bench (median of the benches).
        """
        median, p10, p90 = (self._all[:, _FIELDS.index(name)] for name in ("median", "p10", "p90"))
        with np.errstate(divide="ignore", invalid="ignore"):
            sd = np.log(p90 / p10) / _P10_TO_P90
        sd = np.where(np.isfinite(sd), sd, 0.0)  # if p10 is 0 or absent
        values = self._all.copy()
        values[:, _FIELDS.index("median")] = median * np.exp(sd * random.standard_normal(sd.size))
        return Medians(self._lines, values, steering=self.steering)


def _calm(rows: Sequence[MicroResult]) -> list[MicroResult]:
    """Return *rows* without those on a shared core.

    A line without other rows keeps them. A bench is repeated until the core is calm.
    """
    were_calm = in_calm(rows)
    calm = {row.command for row, was_calm in zip(rows, were_calm, strict=True) if was_calm}
    return [
        row
        for row, was_calm in zip(rows, were_calm, strict=True)
        if was_calm or row.command not in calm
    ]


def _median(values: Floats) -> Floats:
    """Return the median along the last axis, ignoring NaN; NaN if all are absent."""
    ordered = np.sort(values, axis=-1)
    n = np.sum(~np.isnan(values), axis=-1, keepdims=True)
    middle = np.concatenate([np.maximum(n - 1, 0) // 2, n // 2], axis=-1)
    middle = np.minimum(middle, values.shape[-1] - 1)
    medians: Floats = np.take_along_axis(ordered, middle, axis=-1).mean(axis=-1)
    return medians


def first(costs: Known, *names: str) -> float:
    """Return the sum of the first values of costs, which hold for few connections."""
    return sum(costs[name].value[0] for name in names)


def served(medians: Medians, call: str, mechanism: str, batch: int = BATCH) -> float:
    """Return the cost of a call in a server of *mechanism* without idle connections."""
    where: dict[str, int | str] = {"mechanism": mechanism, "n": 0}
    return medians.one(f"serve_{call}", {**where, "batch": batch, "reply": REPLY_BYTES})


def added_to_packets(medians: Medians, bench: str, where: Mapping[str, int | str] = {}) -> Fitted:
    """Return a small cost added to a packet: the median over bursts."""
    points = columns(medians.points(bench, "burst", where))[1]
    if medians.loopback:
        return constant(0, 0, ON_LOOPBACK)
    added_ns = float(np.median(points))
    residual = float(np.std(points)) / added_ns if added_ns > 0 else 0.0
    return constant(added_ns, residual, bench)


def undisturbed(
    medians: Medians, bench: str, where: Mapping[str, int | str]
) -> list[tuple[int, float, float]]:
    """Return (burst, ns per packet, interrupts per packet) of the bursts without a clock tick.

    More than one interrupt per packet indicates a tick, which would count as packet cost.
    """
    stolen = medians.points(bench, "burst", where, least=2)
    entries = medians.points(bench, "burst", where, field="interrupts_per_operation")
    return [(burst, ns, n) for (burst, ns), (_, n) in zip(stolen, entries, strict=True) if n <= 1]


def call_cost(medians: Medians, bench: str, added_ns: float = 0.0) -> Fitted:
    """Return the cost of a call with few simultaneous connections, by number of idle ones.

    Idle connections were measured with many simultaneous ones; the difference between many and few
    does not depend on idle ones.
    """
    counts, totals = columns(medians.points(bench, "n", {**CALLS, "batch": MANY_AT_ONCE}))
    shift_ns = medians.one(bench, {**CALLS, "batch": FEW, "n": 0}) - totals[0]
    fit = fit_curve(counts, [max(0.0, ns + shift_ns + added_ns) for ns in totals])
    return curve(fit, f"{bench}, batches of {FEW}")


def as_in_the_tree(costs: Known, name: str, at_few_ns: float, few_ns: float, source: str) -> Fitted:
    """Return epoll_level's cost *name* by size of the tree, for a server's own call.

    The tree is the same, so the two calls differ by a constant, measured with a small tree.

    Parameters
    ----------
    at_few_ns, few_ns:
        Cost of the server's own call and of epoll_level's, with few connections.
    """
    level = costs[f"epoll_level.{name}"]
    shifted = tuple(max(0.0, ns + at_few_ns - few_ns) for ns in level.value)
    return Fitted(level.at, shifted, level.residual, f"{source}, as epoll_level's grows")


def slope(medians: Medians, bench: str, over: str, own: Mapping[str, int | str]) -> Fitted:
    """Return the cost that each of *over* adds to a wait."""
    line = fit_line(*columns(medians.points(bench, over, own, least=2)))
    return constant(line.unknowns[1], line.residual, f"{bench} over {over}")


def at_one(costs: Known, name: str) -> float:
    """Return a curve's value for one descriptor."""
    return float(np.interp(1, costs[name].at, costs[name].value))
