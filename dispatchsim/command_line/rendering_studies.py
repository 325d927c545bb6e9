"""Answers of studies for people: tables in a terminal."""

from __future__ import annotations

import math

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from ..scenario.formats import time_text
from ..scenario.metrics import METRICS, metric_text
from ..sim.figures.metrics import Verdict
from ..studies.capacity import Capacity
from ..studies.comparison import Contest
from ..studies.forecast import ForecastAnswer
from ..studies.rows import Index, Swept
from ..studies.sensitivity import Sensitivity
from ..studies.steady import Steady
from ..studies.sweep import Sweep
from ..studies.tune import Tuning
from .rendering import print_warnings

_ROWS_MAX = 100
_FIELDS_WIDE = 3
_HEAD_WIDE = 8
_INDEX_SHOWN = 0.02
_INDICES_MAX = 30


def print_sweep(console: Console, answer: Sweep, figure: str) -> None:
    """Print one line a point."""
    table = Table(title=f"{len(answer.points)} points")
    fields = list(answer.points[0].levels)
    for field in fields:
        table.add_column(field, justify="right", no_wrap=len(fields) < _FIELDS_WIDE)
    drawn = any(len(p.records) > len(p.central) for p in answer.points)
    heads = ["verdict", METRICS[figure].heading, "± 95%", *(["draws 95%"] if drawn else [])]
    others = [f for f in ("throughput_per_s", "cpu_busy") if f != figure]
    if any(p.estimate("failed_share").mean > 0 for p in answer.points):
        others.append("failed_share")
    for head in (*heads, *(METRICS[f].heading for f in others), "runs"):
        justify: JustifyMethod = "left" if head == "verdict" else "right"
        table.add_column(_two_lines(head), justify=justify, no_wrap=True)
    for point in answer.points[:_ROWS_MAX]:
        known = point.estimate(figure)
        cells = [Text(str(point.levels[f])) for f in fields]
        cells += [Text(str(point.verdict)), Text(metric_text(figure, known.mean))]
        cells.append(Text(_half_width(figure, point)))
        if drawn:
            low, high = metric_text(figure, known.low), metric_text(figure, known.high)
            cells.append(Text(f"{low} ... {high}"))
        cells += [Text(metric_text(f, point.estimate(f).mean)) for f in others]
        table.add_row(*cells, str(len(point.central)))
    console.print(table)
    _print_rest(console, len(answer.points))
    _print_unprecise(console, answer)
    print_warnings(console, answer.warnings)


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
            f"! not as precise as asked for at {len(left)} points, {n_overloaded} of them "
            "overloaded: there the figure says how long the run was",
            highlight=False,
        )


def print_contest(console: Console, answer: Contest) -> None:
    """Print contenders beside each other at each point; * marks who may be the best."""
    fields = list(answer.rounds[0].levels)
    names = list(answer.rounds[0].contenders)
    per_table = max(1, (console.width - 14 * len(fields)) // 22)
    for begin in range(0, len(names), per_table):
        part = names[begin : begin + per_table]
        table = Table(title=f"{METRICS[answer.figure].heading}, the same arrivals at each point")
        for field in fields:
            table.add_column(field, justify="right")
        for name in part:
            table.add_column(str(name), justify="right", no_wrap=True)
        for each in answer.rounds[:_ROWS_MAX]:
            cells = [Text(str(each.levels[f])) for f in fields]
            for name in part:
                point = each.contenders[name]
                mean = metric_text(answer.figure, point.estimate(answer.figure).mean)
                mark = " *" if name in each.perhaps_best else "  "
                over = "overloaded, " if point.verdict is Verdict.OVERLOADED else ""
                cells.append(Text(f"{over}{mean}{mark}"))
            table.add_row(*cells)
        console.print(table)
    _print_rest(console, len(answer.rounds))
    console.print(
        "* cannot be told from the best of its row, with 95% (paired, corrected for all pairs)"
    )
    _print_unprecise(console, answer.sweep)
    print_warnings(console, answer.warnings)


def print_capacity(console: Console, answer: Capacity) -> None:
    """Print the answer, and what each search found."""
    table = Table(title=f"{answer.scenario.server.mechanism}: one search per replication")
    for heading in ("seed", "costs", "found", "kept at", "broken at", "tried"):
        table.add_column(heading, justify="left" if heading in ("costs", "found") else "right")
    for s in answer.searches:
        table.add_row(
            str(s.seed),
            "central" if s.draw is None else f"draw {s.draw}",
            str(s.found),
            "none" if s.low == 0 and s.high <= answer.axis.floor else answer.axis.text(s.low),
            "none" if math.isinf(s.high) else answer.axis.text(s.high),
            str(len(s.tried)),
        )
    console.print(table)
    console.print(answer.sentence, style="bold", highlight=False, markup=False)
    print_warnings(console, answer.warnings)


def print_tuning(console: Console, answer: Tuning) -> None:
    """Print the options, best first."""
    head = METRICS[answer.aim].heading
    table = Table(title=f"{'largest' if answer.largest else 'smallest'} {head}")
    for heading in ("", *answer.options[0].swept.levels, head, "± 95%", "runs", ""):
        table.add_column(heading, justify="right")
    for option in answer.options[:_ROWS_MAX]:
        known = option.swept.estimate(answer.aim)
        table.add_row(
            "*" if option.stays else "",
            *(str(v) for v in option.swept.levels.values()),
            metric_text(answer.aim, known.mean),
            _half_width(answer.aim, option.swept),
            str(len(option.swept.central)),
            f"breaks {option.broken}" if option.broken else str(option.swept.verdict),
        )
    console.print(table)
    console.print(answer.sentence, style="bold", highlight=False, markup=False)
    print_warnings(console, answer.warnings)


def _matters(index: Index) -> bool:
    """Return whether a share is worth a line: its own, or with others, or what they may be."""
    return max(index.total, index.total_high, index.first) >= _INDEX_SHOWN


def print_sensitivity(console: Console, answer: Sensitivity) -> None:
    """Print the indices, the greatest first."""
    mean = metric_text(answer.figure, answer.mean)
    deviation = metric_text(answer.figure, answer.deviation)
    table = Table(title=f"{METRICS[answer.figure].heading}: {mean}, deviation {deviation}")
    for heading in ("", "by itself", "95%", "with others", "95%"):
        table.add_column(heading, justify="left" if not heading else "right")
    shown = [i for i in answer.indices if _matters(i)][:_INDICES_MAX]
    for index in shown or answer.indices[:1]:
        table.add_row(
            index.name,
            f"{index.first:.2f}",
            f"{index.first_low:.2f} ... {index.first_high:.2f}",
            f"{index.total:.2f}",
            f"{index.total_low:.2f} ... {index.total_high:.2f}",
        )
    console.print(table)
    rest = sum(not _matters(i) for i in answer.indices)
    others = f"; {rest} others explain less than {_INDEX_SHOWN:.0%} each" if rest else ""
    console.print(f"shares of the variance over {answer.runs} runs{others}", highlight=False)
    console.print(answer.sentence, style="bold", highlight=False, markup=False)
    print_warnings(console, answer.warnings)


def print_forecast(console: Console, answer: ForecastAnswer) -> None:
    """Print what is expected, with what each interval is of."""
    table = Table(title=f"{answer.scenario.server.mechanism}: {answer.verdict}")
    level = f"{answer.level:.0%}"
    for heading in ("", "forecast", f"{level} interval", "costs and arrivals", "past misses"):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for known in answer.expected:

        def between(bounds: tuple[float, float] | None, figure: str = known.figure) -> str:
            return " ... ".join(metric_text(figure, x) for x in bounds or ()) or "none"

        table.add_row(
            METRICS[known.figure].heading,
            metric_text(known.figure, known.mean),
            between((known.low, known.high)),
            between(known.calibration),
            between(known.missed),
        )
    console.print(table)
    holds = "what arrivals and costs leave open"
    if any(known.missed is not None for known in answer.expected):
        holds += ", and what forecasts missed before"
    console.print(
        f"The median of measured runs lies in the {level} interval at least so often: it holds "
        f"{holds}.",
        highlight=False,
    )
    print_warnings(console, answer.warnings)


def print_steady(console: Console, answer: Steady) -> None:
    """Print whether there is a steady state, and the mean latency by two procedures."""
    table = Table(title=f"mean latency after the warm-up, {len(answer.runs)} runs")
    for heading in ("", "mean", "95%"):
        table.add_column(heading, justify="left" if not heading else "right")
    for what, known in (
        ("first run, overlapping batch means", answer.one_run),
        ("over the means of all runs", answer.all_runs),
    ):
        if known is not None:
            low, high = time_text(known.low), time_text(known.high)
            table.add_row(what, time_text(known.estimate), f"{low} ... {high}")
    console.print(table)
    for sentence in answer.sentences:
        console.print(sentence, style="bold", highlight=False, markup=False)


def _two_lines(head: str) -> str:
    """Return a heading broken at the space that is nearest to its middle."""
    spaces = [i for i, letter in enumerate(head) if letter == " "]
    if not spaces or len(head) < _HEAD_WIDE:
        return head
    at = min(spaces, key=lambda i: abs(i - len(head) / 2))
    return f"{head[:at]}\n{head[at + 1 :]}"
