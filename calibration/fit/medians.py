"""The medians of the microbenchmarks, and what their equations share.

    micro.jsonl ──► lines x fields x rounds ──medians of some rounds──► points of a bench
                points ──► lines and curves ──► Known: table.name ──first, at_one──► further

A line is a bench with its parameters; a round runs each once. Resampling rounds, and not lines,
keeps together what a slow spell of the machine hit together.
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
"""Of the server's calls: as at the fit point."""
FEW, MANY_AT_ONCE = 8, 64  # connections of a batch: all in the allocator's lists, or not
MANY = 1000  # descriptors, where a bench has them beside what it measures
CALLS: dict[str, int | str] = {"reply": REPLY_BYTES, "mechanism": "epoll"}


class Fitted(NamedTuple):
    """A cost as a curve (`at` of one entry: a constant), and where it comes from."""

    at: tuple[int, ...]
    value: tuple[float, ...]
    residual: float
    source: str


Known = dict[str, Fitted]
"""Costs that are solved already, by table and name: "poll.scan"."""


def curve(fit: CurveFit, source: str) -> Fitted:
    """Return a cost that follows a fitted curve."""
    return Fitted(fit.at, fit.ns, fit.residual, source)


def constant(value: float, residual: float, source: str) -> Fitted:
    """Return a cost that is the same for any count; what is negative counts as 0."""
    return Fitted((0,), (max(0.0, value),), residual, source)


_FIELDS = (
    "median", "p10", "p90", "interrupts_per_operation", "cpu_ns", "busy_ns", "latency_ns",
    "stolen_ns", "awake_ns", "begin_ns", "unarmed_ns",
)  # fmt: skip

_P10_TO_P90 = 2.563
"""The distance of the quantiles of 10 and 90% of a normal law, in standard deviations."""


class FitError(ValueError):
    """Costs cannot be derived; the message names file, bench, rule and what was found."""


class Medians:
    """The medians of every line of the microbenchmarks over some rounds."""

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
        """Whether client and server shared a CPU for their packets: it prices fewer things."""
        return self.steering == "loopback"

    def points(
        self,
        bench: str,
        over: str,
        where: Mapping[str, int | str] = {},
        *,
        least: int = 1,
        field: str = "median",
    ) -> list[tuple[int, float]]:
        """Return (parameter *over*, *field*) of the lines of *bench* that agree with *where*.

        Raises
        ------
        FitError
            If there are fewer than *least* that differ in *over*.
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
                f"micro.jsonl: {bench}{wanted}: at least {results} must be there, got {len(found)}"
            )
        return found

    def one(
        self, bench: str, where: Mapping[str, int | str] = {}, *, field: str = "median"
    ) -> float:
        """Return *field* of the line of *bench* that agrees with *where*, or of the middle one."""
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
    """All microbenchmark results as an array: lines by fields by rounds."""

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
                "micro.jsonl: steering: must be one of namespaces and far_end, got both: their "
                "clients cost the server's CPU differently"
            )
        # Rounds may differ: what loopback cannot tell, a table with any of it cannot.
        self.steering = "loopback" if "loopback" in given else max(given, default="")

    def medians(self, rounds: NDArray[np.int64] | None = None) -> Medians:
        """Return the medians over all rounds, or over *rounds*, which may repeat some.

        A line that none of *rounds* has is taken from all.
        """
        if rounds is None:
            return Medians(self._lines, self._all, steering=self.steering)
        picked = _median(self._values[:, :, rounds])
        values = np.where(np.isnan(picked), self._all, picked)
        return Medians(self._lines, values, steering=self.steering)

    def disturbed(self, random: np.random.Generator) -> Medians:
        """Return the medians, each multiplied by a draw of the scatter within its bench.

        That of a bench's median from round to round is known only where there are rounds. It was
        0.4 to 1.0 times the scatter within a bench, in the median of the benches of three machines
        of two and three rounds (calibration/measured).
        """
        median, p10, p90 = (self._all[:, _FIELDS.index(name)] for name in ("median", "p10", "p90"))
        with np.errstate(divide="ignore", invalid="ignore"):
            sd = np.log(p90 / p10) / _P10_TO_P90
        sd = np.where(np.isfinite(sd), sd, 0.0)  # where p10 is 0 or absent
        values = self._all.copy()
        values[:, _FIELDS.index("median")] = median * np.exp(sd * random.standard_normal(sd.size))
        return Medians(self._lines, values, steering=self.steering)


def _calm(rows: Sequence[MicroResult]) -> list[MicroResult]:
    """Return *rows* without those beside which somebody else used the core.

    A line that has no others keeps them. A bench is repeated until the core is calm.
    """
    were_calm = in_calm(rows)
    calm = {row.command for row, was_calm in zip(rows, were_calm, strict=True) if was_calm}
    return [
        row
        for row, was_calm in zip(rows, were_calm, strict=True)
        if was_calm or row.command not in calm
    ]


def _median(values: Floats) -> Floats:
    """Return the median along the last axis; absent values are NaN, and so is that of none."""
    ordered = np.sort(values, axis=-1)
    n = np.sum(~np.isnan(values), axis=-1, keepdims=True)
    middle = np.concatenate([np.maximum(n - 1, 0) // 2, n // 2], axis=-1)
    middle = np.minimum(middle, values.shape[-1] - 1)
    medians: Floats = np.take_along_axis(ordered, middle, axis=-1).mean(axis=-1)
    return medians


def first(costs: Known, *names: str) -> float:
    """Return the sum of the first values of costs: what they are with few connections."""
    return sum(costs[name].value[0] for name in names)


def served(medians: Medians, call: str, mechanism: str, batch: int = BATCH) -> float:
    """Return what a call costs a server of *mechanism* without idle connections."""
    where: dict[str, int | str] = {"mechanism": mechanism, "n": 0}
    return medians.one(f"serve_{call}", {**where, "batch": batch, "reply": REPLY_BYTES})


def added_to_packets(medians: Medians, bench: str, where: Mapping[str, int | str] = {}) -> Fitted:
    """Price what is added to a packet, which is small beside it: the median over bursts."""
    points = columns(medians.points(bench, "burst", where))[1]
    if medians.loopback:
        return constant(0, 0, ON_LOOPBACK)
    added_ns = float(np.median(points))
    residual = float(np.std(points)) / added_ns if added_ns > 0 else 0.0
    return constant(added_ns, residual, bench)


def undisturbed(
    medians: Medians, bench: str, where: Mapping[str, int | str]
) -> list[tuple[int, float, float]]:
    """Return (burst, ns a packet, interrupts a packet) of the bursts into which no tick came.

    More than one interrupt a packet says that one did: it would be priced as packets.
    """
    stolen = medians.points(bench, "burst", where, least=2)
    entries = medians.points(bench, "burst", where, field="interrupts_per_operation")
    return [(burst, ns, n) for (burst, ns), (_, n) in zip(stolen, entries, strict=True) if n <= 1]


def call_cost(medians: Medians, bench: str, added_ns: float = 0.0) -> Fitted:
    """Return what a call costs with few connections at once, by number of idle ones.

    The idle ones were beside many at once; how these differ from few does not depend on them.
    """
    counts, totals = columns(medians.points(bench, "n", {**CALLS, "batch": MANY_AT_ONCE}))
    shift_ns = medians.one(bench, {**CALLS, "batch": FEW, "n": 0}) - totals[0]
    fit = fit_curve(counts, [max(0.0, ns + shift_ns + added_ns) for ns in totals])
    return curve(fit, f"{bench}, batches of {FEW}")


def as_in_the_tree(costs: Known, name: str, at_few_ns: float, few_ns: float, source: str) -> Fitted:
    """Return epoll_level's cost of that *name* by size of the tree, for a server's own call.

    The tree is the same, so the two differ by what they do where it is small.

    Parameters
    ----------
    at_few_ns, few_ns:
        The server's own call, and epoll_level's, with few connections.
    """
    level = costs[f"epoll_level.{name}"]
    shifted = tuple(max(0.0, ns + at_few_ns - few_ns) for ns in level.value)
    return Fitted(level.at, shifted, level.residual, f"{source}, as epoll_level's grows")


def slope(medians: Medians, bench: str, over: str, own: Mapping[str, int | str]) -> Fitted:
    """Return what each of *over* adds to a wait."""
    line = fit_line(*columns(medians.points(bench, over, own, least=2)))
    return constant(line.unknowns[1], line.residual, f"{bench} over {over}")


def at_one(costs: Known, name: str) -> float:
    """Return a curve's value for one descriptor."""
    return float(np.interp(1, costs[name].at, costs[name].value))
