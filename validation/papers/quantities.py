"""The quantities of claims: metrics along an axis, their maxima and ratios, and comparisons.

    cpu("252 idle", "select") <= 0.67 * cpu("252 idle", "poll")      at every point of the axis
    reply_rate("252 idle", "select").max() < 2_000                   of the whole curve

Values are computed when `Quantity.of` gets the metrics of one sample. A quantity and a comparison
have a text, which a report prints. The metrics of a run are `FIGURES` of its summary.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.figures.summary import Summary
from ...sim.state.units import MILLISECOND_NS, SECOND_NS

Values = NDArray[np.float64]
Key = tuple[str, str, float]
"""Condition, server, and the value on the axis that the condition varies."""
Figures = Mapping[Key, Mapping[str, float]]
"""The metrics of one sample by run; see `FIGURES`."""


class Comparison(NamedTuple):
    """A quantity, a sign, and the quantity that it is compared with."""

    left: Quantity
    sign: str
    right: Quantity

    def holds(self, figures: Figures) -> bool:
        """Return whether it holds at every point.

        It fails if a side is not a number, or if both are infinite, as response times without any
        reply.
        """
        compare = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
        left, right = np.broadcast_arrays(self.left.of(figures), self.right.of(figures))
        held = compare[self.sign](left, right) & ~(np.isinf(left) & np.isinf(right))
        return bool(np.all(held))

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


class Quantity:
    """A quantity with one value, or one for each point, computed from the metrics of a sample.

    Parameters
    ----------
    text:
        Its text in reports.
    of:
        Returns its value, shape (points,) or (1,), in the unit of its metric.
    """

    def __init__(self, text: str, of: Callable[[Figures], Values], level: int = 2) -> None:
        self.text, self.of, self._level = text, of, level

    def __str__(self) -> str:
        return self.text

    def __le__(self, other: Quantity | float) -> Comparison:
        return Comparison(self, "<=", _quantity(other))

    def __ge__(self, other: Quantity | float) -> Comparison:
        return Comparison(self, ">=", _quantity(other))

    def __lt__(self, other: Quantity | float) -> Comparison:
        return Comparison(self, "<", _quantity(other))

    def __gt__(self, other: Quantity | float) -> Comparison:
        return Comparison(self, ">", _quantity(other))

    def __add__(self, other: Quantity | float) -> Quantity:
        return self._with("+", operator.add, other, 0)

    def __sub__(self, other: Quantity | float) -> Quantity:
        return self._with("-", operator.sub, other, 0)

    def __mul__(self, other: Quantity | float) -> Quantity:
        return self._with("x", operator.mul, other, 1)

    def __truediv__(self, other: Quantity | float) -> Quantity:
        return self._with("/", operator.truediv, other, 1)

    def __rsub__(self, whole: float) -> Quantity:
        return _quantity(whole) - self

    def __rmul__(self, factor: float) -> Quantity:
        return _quantity(factor) * self

    def max(self) -> Quantity:
        """Return the largest of its values."""
        return self._reduced("highest", np.max)

    def min(self) -> Quantity:
        """Return the smallest of its values."""
        return self._reduced("lowest", np.min)

    def mean(self) -> Quantity:
        """Return the mean of its values."""
        return self._reduced("mean", np.mean)

    def first(self) -> Quantity:
        """Return its value at the first point."""
        return self._reduced("first", lambda values: values[0])

    def last(self) -> Quantity:
        """Return its value at the last point."""
        return self._reduced("last", lambda values: values[-1])

    def named(self, text: str) -> Quantity:
        """Return the quantity with *text* instead of its formula."""
        return Quantity(text, self.of)

    def _reduced(self, word: str, reduce: Callable[[Values], float]) -> Quantity:
        return Quantity(f"{word} {self}", lambda f: np.array([reduce(self.of(f))]), 1)

    def _with(
        self,
        sign: str,
        apply: Callable[[Values, Values], Values],
        other: Quantity | float,
        level: int,
    ) -> Quantity:
        right = _quantity(other)
        text = f"{self._text(level)} {sign} {right._text(level + 1)}"
        return Quantity(text, lambda f: apply(self.of(f), right.of(f)), level)

    def _text(self, level: int) -> str:
        return f"({self.text})" if self._level < level else self.text


def _quantity(value: Quantity | float) -> Quantity:
    if isinstance(value, Quantity):
        return value
    return Quantity(f"{value:g}", lambda _: np.array([float(value)]))


class Curve(Quantity):
    """A metric of one server along the axis of a condition, at some points."""

    def __init__(self, figure: str, condition: str, server: str, at: Sequence[float]) -> None:
        self.figure, self.condition, self.server, self.at = figure, condition, server, tuple(at)

        def of(figures: Figures) -> Values:
            points = self.points(figures)
            return np.array([figures[condition, server, x][figure] for x in points], np.float64)

        where = f" at {at[0]:g}" if len(at) == 1 else ""
        super().__init__(f"{figure.replace('_', ' ')} of {server}{where} ({condition})", of)

    def points(self, figures: Figures) -> list[float]:
        """Return its points on the axis that were run: a fast setting has only some.

        Raises
        ------
        ValueError
            If there is none.
        """
        found = [x for x in self.at if (self.condition, self.server, x) in figures]
        if not found:
            raise ValueError(f"{self}: no point of it was run")
        return found

    @property
    def axis(self) -> Quantity:
        """The values on the axis themselves, such as offered rates."""
        return Quantity(f"offered rate ({self.condition})", lambda f: np.array(self.points(f)))

    def where(self, low: float = -np.inf, high: float = np.inf) -> Curve:
        """Return the curve between two values of the axis, ends included.

        Raises
        ------
        ValueError
            If no point lies there.
        """
        found = [x for x in self.at if low <= x <= high]
        if not found:
            raise ValueError(f"{self}: no point from {low:g} to {high:g}")
        return Curve(self.figure, self.condition, self.server, found)

    def point(self, x: float) -> Curve:
        """Return the curve at one point."""
        return self.where(x, x)


def within(left: Quantity, right: Quantity | float, share: float) -> tuple[Comparison, ...]:
    """Return the comparisons for *left* within *share* of *right*."""
    other = _quantity(right)
    return (left >= (1 - share) * other, left <= (1 + share) * other)


def near(left: Quantity, value: float, distance: float) -> tuple[Comparison, ...]:
    """Return the comparisons for *left* within *distance* of *value*, in its own unit."""
    return (left >= value - distance, left <= value + distance)


def flat(curve: Quantity, share: float) -> tuple[Comparison, ...]:
    """Return the comparisons for a level curve: its range is at most *share* of its mean."""
    return (curve.max() - curve.min() <= share * curve.mean(),)


def straight(curve: Curve) -> Quantity:
    """Return the share of a curve's variance that a straight line explains (R squared)."""

    def of(figures: Figures) -> Values:
        return np.array([np.corrcoef(curve.points(figures), curve.of(figures))[0, 1] ** 2])

    return Quantity(f"R² of {curve} over its axis", of)


def last_kept(rate: Curve, share: float) -> Quantity:
    """Return the highest point up to which replies are at least *share* of the requests.

    The axis must be in requests per second; 0 if the lowest point already fails.
    """

    def of(figures: Figures) -> Values:
        kept = 0.0
        for x, found in zip(rate.points(figures), rate.of(figures), strict=True):
            if found < share * x:
                break
            kept = x
        return np.array([kept])

    return Quantity(
        f"last rate at which {rate.server} replies to {share:.0%} ({rate.condition})", of
    )


def falls_below(curve: Curve, share: float) -> Quantity:
    """Return the lowest point from which on *curve* is below *share* of its peak; inf: never."""

    def of(figures: Figures) -> Values:
        values = curve.of(figures)
        above = np.flatnonzero(values >= share * values.max())
        points = [*curve.points(figures), np.inf]
        return np.array([points[int(above[-1]) + 1]])

    return Quantity(f"rate at which {curve} falls below {share:.0%} of its peak", of)


def _rate(name: str) -> Callable[[Summary], float]:
    return lambda s: s.calls[name] * SECOND_NS / s.window_ns


def _share(*activities: str) -> Callable[[Summary], float]:
    """Return the metric: share of the CPU's busy time in *activities*."""

    def figure(s: Summary) -> float:
        spent = s.cpu.by_activity_ns
        return sum(spent[name] for name in activities) / max(1, s.cpu.busy_ns)

    return figure


FIGURES: dict[str, Callable[[Summary], float]] = {
    # replies to requests, as httperf counts them: each of several on a connection
    "reply_rate": _rate("replies"),
    "reply_rate_min": lambda s: s.reply_rate_per_s.min,
    "reply_rate_max": lambda s: s.reply_rate_per_s.max,
    "reply_rate_sd": lambda s: s.reply_rate_per_s.sd,
    "connection_rate": lambda s: s.connections.replied * SECOND_NS / s.window_ns,
    "cpu": lambda s: s.cpu_busy,
    "process_cpu": lambda s: s.cpu.process_ns / s.window_ns,
    "process_ns_per_reply": lambda s: s.cpu.process_ns / max(1, s.calls["replies"]),
    "response_ms": lambda s: s.connections.lifetime_ns.mean / MILLISECOND_NS,
    "request_response_ms": lambda s: s.latency_ns.mean / MILLISECOND_NS,
    "error_share": lambda s: sum(s.errors.values()) / max(1, s.offered),
    "events_per_wait": lambda s: s.events_per_wait,
    "waits_per_reply": lambda s: s.calls["waits"] / max(1, s.calls["replies"]),
    "changes_per_reply": lambda s: (
        (s.calls["watches"] + s.calls["rewatches"] + s.calls["unwatches"])
        / max(1, s.calls["replies"])
    ),
    "change_calls_per_reply": lambda s: s.calls["updates"] / max(1, s.calls["replies"]),
    "notices": _rate("notices"),
    "overflows": _rate("overflows"),
    # sigwaitinfo: one signal per call, including SIGIO
    "signal_calls": lambda s: _rate("notices")(s) + _rate("overflows")(s),
    "asks": _rate("asks"),
    "datagrams": _rate("datagrams"),
    "other_cpu": lambda s: s.cpu.by_activity_ns["other"] / s.window_ns,
    "scanned_per_reply": lambda s: s.calls["scanned"] / max(1, s.calls["replies"]),
    "ns_per_wait": lambda s: s.cpu.by_activity_ns["wait"] / max(1, s.calls["waits"]),
    "asked_per_reply": lambda s: s.calls["rechecked"] / max(1, s.calls["replies"]),
    "user_share": _share("user"),
    "wait_share": _share("wait"),
    "obtain_share": _share("wait", "sleep", "wake"),
    "accept_share": _share("accept"),
    "read_share": _share("read"),
    "write_share": _share("write"),
    "close_share": _share("close"),
    "change_share": _share("watch", "rewatch", "unwatch"),
    "unwatch_share": _share("unwatch"),
    "interrupt_share": _share("interrupt", "interrupt_idle", "ksoftirqd", "interrupt_other"),
}
"""Rates are per second; shares are of the CPU's busy time or of offered connections."""
OVER_TIME = ("reply_rate_min", "reply_rate_sd", "reply_rate_max")
"""Metrics in `FIGURES` of the replies in each interval of a run, besides the mean."""


def figures_of(summary: Summary) -> dict[str, float]:
    """Return all of `FIGURES` of *summary*."""
    found = {name: float(figure(summary)) for name, figure in FIGURES.items()}
    if summary.offered > 0:
        # A client without a reply before the end counts as waiting for ever.
        found |= {
            name: math.inf for name in found if "response" in name and math.isnan(found[name])
        }
    return found
