"""Answers of studies as tables in a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console

from ..scenario.formats import time_text
from ..scenario.metrics import METRICS, metric_text
from ..sim.figures.summary import Verdict
from ..sim.files.tables import Column, Table, rich_table
from ..studies.capacity import Capacity
from ..studies.comparison import Contest, Round
from ..studies.factors import Levels, Value
from ..studies.forecast import ForecastAnswer
from ..studies.rows import Expected, Found, Index, Option, Search, Swept
from ..studies.sensitivity import Sensitivity
from ..studies.steady import Steady
from ..studies.sweep import Sweep
from ..studies.tune import Tuning
from .rendering import between, print_answer

_ROWS_MAX = 100
_INDEX_SHOWN = 0.02
_INDICES_MAX = 30


def _levels(fields: Iterable[str], of: Callable[[Any], Levels]) -> list[Column[Any]]:
    """Return a column for each field that is varied; *of* returns the levels of a record."""

    def column(field: str) -> Column[Any]:
        return Column(field, lambda record: of(record)[field])

    return [column(field) for field in fields]


def print_sweep(console: Console, answer: Sweep, figure: str) -> None:
    """Print one line a point."""

    def mean(name: str) -> Column[Swept]:
        heading = METRICS[name].heading
        return Column(heading, lambda p: metric_text(name, p.estimate(name).mean))

    others = [f for f in ("throughput_per_s", "cpu_busy") if f != figure]
    if any(p.estimate("failed_share").mean > 0 for p in answer.points):
        others.append("failed_share")
    columns: list[Column[Swept]] = [
        *_levels(answer.points[0].levels, lambda p: p.levels),
        Column("verdict", lambda p: p.verdict, words=True),
        mean(figure),
        Column("± 95%", lambda p: _half_width(figure, p)),
    ]
    if any(len(p.records) > len(p.central) for p in answer.points):
        columns.append(Column("cost samples 95%", lambda p: between(figure, p.estimate(figure))))
    columns += [*map(mean, others), Column("runs", lambda p: len(p.central))]
    title = f"{len(answer.points)} points"
    console.print(rich_table(Table.of(title, answer.points[:_ROWS_MAX], columns)))
    _print_rest(console, len(answer.points))
    _print_unprecise(console, answer)


def _half_width(figure: str, point: Swept) -> str:
    half_width = point.estimate(figure).half_width
    text = "none" if math.isnan(half_width) else metric_text(figure, half_width)
    return text if point.is_precise else f"{text} !"


def _print_rest(console: Console, n: int) -> None:
    if n > _ROWS_MAX:
        console.print(
            f"... and {n - _ROWS_MAX} more: --json has all, `dispatchsim results` exports them"
        )


def _print_unprecise(console: Console, answer: Sweep) -> None:
    left = [p for p in answer.points if not p.is_precise]
    if left:
        n_overloaded = sum(p.verdict is Verdict.OVERLOADED for p in left)
        console.print(
            f"! {len(left)} points missed the requested precision; {n_overloaded} of them are "
            "overloaded, where latency grows with run length and has no steady value",
            highlight=False,
        )


def print_contest(console: Console, answer: Contest) -> None:
    """Print contenders side by side at each point; * marks those that may be the best."""

    def column(name: Value) -> Column[Round]:
        def text(each: Round) -> str:
            point = each.contenders[name]
            mean = metric_text(answer.figure, point.estimate(answer.figure).mean)
            mark = " *" if name in each.perhaps_best else "  "
            over = "overloaded, " if point.verdict is Verdict.OVERLOADED else ""
            return f"{over}{mean}{mark}"

        return Column(str(name), text)

    fields = list(answer.rounds[0].levels)
    names = list(answer.rounds[0].contenders)
    per_table = max(1, (console.width - 14 * len(fields)) // 22)
    title = f"{METRICS[answer.figure].heading}, the same arrivals at each point"
    for begin in range(0, len(names), per_table):
        columns = [
            *_levels(fields, lambda r: r.levels),
            *map(column, names[begin : begin + per_table]),
        ]
        console.print(rich_table(Table.of(title, answer.rounds[:_ROWS_MAX], columns)))
    _print_rest(console, len(answer.rounds))
    console.print(
        "* no significant difference from the row's best (95%, paired, corrected for all pairs)"
    )
    _print_unprecise(console, answer.sweep)


def print_capacity(console: Console, answer: Capacity) -> None:
    """Print the answer, and what each search found."""
    axis = answer.axis

    def met(search: Search) -> str:
        is_none = search.low == 0 and search.high <= axis.floor
        return "none" if is_none else axis.text(search.low)

    is_usual = all(search.found is Found.BETWEEN for search in answer.searches)
    columns: list[Column[Search]] = [
        Column("seed", lambda s: s.seed),
        Column("costs", lambda s: "fitted" if s.draw is None else f"sample {s.draw}", words=True),
        *([] if is_usual else [Column("found", lambda s: s.found, words=True)]),
        Column("holds at", met),
        Column("fails at", lambda s: "none" if math.isinf(s.high) else axis.text(s.high)),
        Column("runs", lambda s: len(s.tried)),
    ]
    print_answer(console, answer.sentence)
    title = f"{answer.scenario.server.mechanism}: one search per row"
    console.print(rich_table(Table.of(title, answer.searches, columns)))
    for sentence in answer.reckoning:
        console.print(sentence, highlight=False, markup=False)


def print_tuning(console: Console, answer: Tuning) -> None:
    """Print the options, best first."""
    aim = answer.aim
    head = METRICS[aim].heading
    columns: list[Column[Option]] = [
        Column("", lambda o: "*" if o.stays else ""),
        *_levels(answer.options[0].swept.levels, lambda o: o.swept.levels),
        Column(head, lambda o: metric_text(aim, o.swept.estimate(aim).mean)),
        Column("± 95%", lambda o: _half_width(aim, o.swept)),
        Column("runs", lambda o: len(o.swept.central)),
        Column("", lambda o: f"violates {o.broken}" if o.broken else o.swept.verdict),
    ]
    title = f"{'largest' if answer.largest else 'smallest'} {head}"
    console.print(rich_table(Table.of(title, answer.options[:_ROWS_MAX], columns)))
    print_answer(console, answer.sentence)


def _matters(index: Index) -> bool:
    """Return whether an index, or the upper end of its interval, is large enough to be shown."""
    return max(index.total, index.total_high, index.first) >= _INDEX_SHOWN


def print_sensitivity(console: Console, answer: Sensitivity) -> None:
    """Print the indices, the greatest first."""
    mean = metric_text(answer.figure, answer.mean)
    deviation = metric_text(answer.figure, answer.deviation)
    columns: list[Column[Index]] = [
        Column("", lambda i: i.name, words=True),
        Column("first order", lambda i: f"{i.first:.2f}"),
        Column("95%", lambda i: f"{i.first_low:.2f} ... {i.first_high:.2f}"),
        Column("total", lambda i: f"{i.total:.2f}"),
        Column("95%", lambda i: f"{i.total_low:.2f} ... {i.total_high:.2f}"),
    ]
    shown = [i for i in answer.indices if _matters(i)][:_INDICES_MAX]
    title = f"{METRICS[answer.figure].heading}: {mean}, deviation {deviation}"
    console.print(rich_table(Table.of(title, shown or answer.indices[:1], columns)))
    rest = sum(not _matters(i) for i in answer.indices)
    others = f"; {rest} others explain less than {_INDEX_SHOWN:.0%} each" if rest else ""
    console.print(f"shares of the variance over {answer.runs} runs{others}", highlight=False)
    print_answer(console, answer.sentence)


def print_forecast(console: Console, answer: ForecastAnswer) -> None:
    """Print the forecast of each metric, with the sources of its interval."""
    level = f"{answer.level:.0%}"

    def bounds(
        heading: str, of: Callable[[Expected], tuple[float, float] | None]
    ) -> Column[Expected]:
        def text(known: Expected) -> str:
            ends = of(known) or ()
            return " ... ".join(metric_text(known.figure, x) for x in ends) or "none"

        return Column(heading, text)

    def row_name(known: Expected) -> str:
        name = METRICS[known.figure].heading
        rank = name.removesuffix(" of replies")
        return name if rank == name else f"response time, {rank}"

    columns: list[Column[Expected]] = [
        Column("", row_name, words=True),
        Column("forecast", lambda known: metric_text(known.figure, known.mean)),
        bounds(f"{level} interval", lambda known: (known.low, known.high)),
        Column("simulated", lambda known: metric_text(known.figure, known.simulated)),
        bounds("simulated, costs and arrivals", lambda known: known.calibration),
        bounds("with past errors", lambda known: known.missed),
    ]
    title = f"{answer.scenario.server.mechanism}: {answer.verdict}"
    console.print(rich_table(Table.of(title, answer.expected, columns)))
    sources = "random arrivals and uncertain costs."
    if any(known.missed is not None for known in answer.expected):
        sources = (
            "random arrivals, uncertain costs and past forecast errors. "
            "The forecast is the simulated value, corrected by the median past error."
        )
    share = (
        "Measure each value several times and take the median: at least "
        f"{level} of such medians should fall in the {level} interval"
    )
    if answer.scenario.machine.cpus > 1:
        share = f"{share} on one CPU, perhaps fewer on several"
    console.print(f"{share}. It combines {sources}", highlight=False)


def print_steady(console: Console, answer: Steady) -> None:
    """Print whether there is a steady state, and the mean latency by two procedures."""
    rows = [
        (what, time_text(known.estimate), f"{time_text(known.low)} ... {time_text(known.high)}")
        for what, known in (
            ("first run, overlapping batch means", answer.one_run),
            ("over the means of all runs", answer.all_runs),
        )
        if known is not None
    ]
    title = f"mean latency after the warm-up, {len(answer.runs)} runs"
    console.print(rich_table(Table.of_cells(title, ("", "mean", "95%"), rows)))
    for sentence in answer.sentences:
        print_answer(console, sentence)
