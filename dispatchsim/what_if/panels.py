"""The charts of the page: what each is called, what it shows, and what of an answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .answers import Answer, loads_of
from .charts import (
    CPU_COLOURS,
    FATE_COLOURS,
    line_chart,
    lines,
    load_data,
    stack_chart,
    stack_data,
)
from .series import (
    Curve,
    Table,
    cpu_stack,
    curve,
    curve_table,
    fate_stack,
    queue,
    queue_table,
    stack_table,
)

_NS_PER_MS = 1e6
_ACCEPT_QUEUE, _READY = 1, 2
_OFFERED = "connections offered a second"


class Panel(NamedTuple):
    """A chart with its words.

    Attributes
    ----------
    key, title, about:
        In the page; above the chart; one sentence on what it shows.
    item:
        The empty chart, for Bokeh in the browser.
    data:
        Returns what it shows of an answer.
    table:
        Returns the same as texts.
    colours:
        Returns [colour, name] of what bars are made of; nothing for lines.
    """

    key: str
    title: str
    about: str
    item: str
    data: Callable[[Answer], dict[str, Any]]
    table: Callable[[Answer], Table]
    colours: Callable[[Answer], list[list[str]]] = lambda _: []

    def content(self, answer: Answer) -> dict[str, Any]:
        """Return all that is shown of *answer*, for the browser."""
        return {
            **self.data(answer),
            "table": self.table(answer)._asdict(),
            "colours": self.colours(answer),
        }


@functools.cache
def panels() -> tuple[Panel, ...]:
    """Return the charts, the same for all viewers, in the order of the page."""
    return (
        _over_load(
            "answered",
            "How many are answered",
            "Replies against load; the dotted line is all. Hollow: the server does not keep up.",
            figure="throughput_per_s",
            chart=line_chart(_OFFERED, "answered a second", diagonal=True),
            unit="a second",
            diagonal=True,
        ),
        _over_load(
            "p99",
            "How long the slowest wait",
            "99% of all who come have their reply within this time; none where 1% or more fail.",
            figure="p99_ns",
            chart=line_chart(_OFFERED, "99% within", times=True, log=True),
            scale=_NS_PER_MS,
            unit="ms",
        ),
        _over_load(
            "p50",
            "How long clients usually wait",
            "Half of those who are answered have their reply within this time.",
            figure="p50_answered_ns",
            chart=line_chart(_OFFERED, "half within", times=True, log=True),
            scale=_NS_PER_MS,
            unit="ms",
        ),
        _stacked(
            "cpu",
            "Where the processor's time goes",
            "At the chosen load, by system call; what is left of 100% is idle.",
            chart=stack_chart("share of the processor's time"),
            colours=CPU_COLOURS,
            stack=cpu_stack,
        ),
        _over_load(
            "events",
            "Events per wait",
            "The more one call brings, the less each event costs.",
            figure="events_per_wait",
            chart=line_chart(_OFFERED, "events a call", log=True),
            unit="events a call",
        ),
        _stacked(
            "errors",
            "What becomes of the clients",
            "At the chosen load, of all that came.",
            chart=stack_chart("share of the clients"),
            colours=FATE_COLOURS,
            stack=fate_stack,
        ),
        _over_time(
            "accepts",
            "Waiting to be accepted",
            "New connections in the backlog over time, at the chosen load, in one run.",
            _ACCEPT_QUEUE,
        ),
        _over_time(
            "ready",
            "Ready, waiting to be served",
            "Connections with something to do over time, at the chosen load, in one run.",
            _READY,
        ),
    )


def _over_load(
    key: str,
    title: str,
    about: str,
    *,
    figure: str,
    chart: str,
    scale: float = 1.0,
    unit: str,
    diagonal: bool = False,
) -> Panel:
    def data(answer: Answer) -> dict[str, Any]:
        curves = {name: curve(answer, name, figure, scale) for name in answer.mechanisms}
        return load_data(loads_of(answer.view), answer.view.rate, curves, diagonal=diagonal)

    def table(answer: Answer) -> Table:
        return curve_table(answer, figure, scale, unit)

    return Panel(key, title, about, chart, data, table)


def _over_time(key: str, title: str, about: str, column: int) -> Panel:
    def data(answer: Answer) -> dict[str, Any]:
        curves, longest = {}, 1.0
        for name in answer.mechanisms:
            at, lengths = queue(answer, name, column)
            curves[name] = Curve(at, lengths, lengths, lengths, [False] * len(at))
            longest = max(longest, *at, 1.0)
        return {"sources": {"lines": lines(curves)}, "x": [0.0, longest]}

    chart = line_chart("ms since the start", "connections", over_load=False)
    return Panel(key, title, about, chart, data, lambda answer: queue_table(answer, column))


def _stacked(
    key: str,
    title: str,
    about: str,
    *,
    chart: str,
    colours: Sequence[str],
    stack: Callable[[Answer], dict[str, list[float]]],
) -> Panel:
    def data(answer: Answer) -> dict[str, Any]:
        return stack_data([row.mechanism for row in answer.chosen], stack(answer), colours)

    def table(answer: Answer) -> Table:
        return stack_table(answer, stack(answer), title)

    def legend(answer: Answer) -> list[list[str]]:
        named = zip(stack(answer).items(), colours, strict=True)
        return [[colour, name] for (name, shares), colour in named if any(shares)]

    return Panel(key, title, about, chart, data, table, legend)
