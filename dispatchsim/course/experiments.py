"""An experiment of a lesson: cases that differ in one respect, with a table and a picture.

    Case(series, at, scenario) ─┐   same seeds, so all series have the same arrivals
    Case(series, at, scenario) ─┼─► runs ─► mean ± 95% of each metric ─► table, picture
    ...                        ─┘

Runs use the fast engine or, without a compiler, the reference engine, with equal outcomes. Metrics
of the library have their heading and value from scenario/metrics.py; others belong to the lessons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from ..calibration.profiles.choosing import EXAMPLE
from ..calibration.profiles.cost import CostSource
from ..calibration.running.preparation import job_of, profile_of, run_job, trace_of, warnings_of
from ..models.simulate import simulate
from ..scenario.errors import UserError, unknown_key
from ..scenario.metrics import METRICS
from ..scenario.run_settings import settings_of
from ..scenario.scenario import Scenario
from ..sim.figures.summary import Summary, Verdict, middle_verdict, summarise
from ..sim.state.costs import Costs
from ..sim.state.mechanism import Mechanism
from ..sim.state.units import SECOND_NS
from ..studies.pictures import noted
from ..studies.rows import Estimate, estimate
from ..validation.drawing.figures import legend, style
from ..validation.drawing.looks import Look
from .drawing import (
    COLUMNS,
    HATCHES,
    PANEL_HEIGHT,
    PANEL_WIDTH,
    looks_of,
    place_labels,
    scale_values,
)
from .exercises import number

if TYPE_CHECKING:
    import pandas as pd

_NAN = float("nan")
_US = 1e3
_SHOWN_IN: dict[str, Callable[[float], float]] = {
    "µs": lambda ns: ns / _US,
    "ms": lambda ns: ns / 1e6,
    "%": lambda share: 100 * share,
    "": lambda number: number,
}


class CourseFigure(NamedTuple):
    """A metric of a run: its label with the unit, and its computation."""

    label: str
    of: Callable[[Summary], float]
    is_log: bool = False
    top: float | None = None  # of the axis


def _metric(
    name: str, unit: str = "", *, is_log: bool = False, top: float | None = None
) -> CourseFigure:
    """Return a metric of the library for lessons, in *unit*."""
    metric = METRICS[name]
    label = f"{metric.heading} ({unit})" if unit else metric.heading
    return CourseFigure(label, lambda s: _SHOWN_IN[unit](metric.of(s)), is_log, top)


def _each(count: str, other: str) -> Callable[[Summary], float]:
    def ratio(summary: Summary) -> float:
        n = summary.calls[other]
        return summary.calls[count] / n if n else _NAN

    return ratio


def _count(name: str) -> Callable[[Summary], float]:
    return lambda summary: float(summary.calls[name])


def _answered_per_s(summary: Summary) -> float:
    return summary.calls["replies"] * SECOND_NS / summary.window_ns


def _cpu_us_per_request(summary: Summary) -> float:
    n = summary.calls["replies"]
    return summary.cpu.busy_ns / n / _US if n else _NAN


FIGURES: dict[str, CourseFigure] = {
    "latency_mean_us": _metric("mean_answered_ns", "µs", is_log=True),
    "latency_p50_us": _metric("p50_answered_ns", "µs", is_log=True),
    "latency_p99_us": _metric("p99_answered_ns", "µs", is_log=True),
    "latency_p50_ms": _metric("p50_answered_ns", "ms", is_log=True),
    "latency_p99_ms": _metric("p99_answered_ns", "ms", is_log=True),
    "request_p50_us": _metric("p50_answered_ns", "µs"),
    "answered_per_s": CourseFigure("requests served (1/s)", _answered_per_s),
    "cpu_busy_percent": _metric("cpu_busy", "%", top=105),
    "cpu_us_per_request": CourseFigure("CPU time per request (µs)", _cpu_us_per_request),
    "events_per_wait": _metric("events_per_wait", is_log=True),
    "scanned_per_wait": CourseFigure("descriptors checked per wait", _each("scanned", "waits")),
    "registered_per_wait": CourseFigure(
        "wait queues joined per wait", _each("registered", "waits")
    ),
    "waits_per_request": _metric("waits_per_reply"),
    "syn_drops": CourseFigure("connection requests dropped", _count("syn_drops")),
    "packet_drops": CourseFigure("packets dropped", _count("packet_drops")),
    "interrupts": CourseFigure("interrupts", _count("interrupts")),
    "recoveries": CourseFigure("recoveries by polling all", _count("overflows")),
    "stranded": CourseFigure(
        "connections stranded at the end", lambda s: float(sum(s.stranded.values()))
    ),
    "failed_percent": _metric("failed_share", "%", top=105),
}
"""The metrics of the course, by name; the last word of a name is the unit."""


def figure_called(name: str) -> CourseFigure:
    """Return the metric called *name*.

    Raises
    ------
    UserError
        With the nearest name.
    """
    if name not in FIGURES:
        raise UserError(f"metric: {unknown_key(name, FIGURES)}, got {name}")
    return FIGURES[name]


RUN = {"duration": "240 ms", "warm_up": "60 ms", "replications": 3}
"""The section [run] of a lesson's scenarios, unless the lesson sets another."""


class Case(NamedTuple):
    """One point of an experiment.

    Attributes
    ----------
    series, at:
        Its line, and its place on the axis.
    scenario:
        The scenario to run.
    profile:
        The costs; None: the profile that the scenario names.
    mechanism:
        A student's own, in place of the scenario's; it has that mechanism's costs.
    """

    series: str
    at: float
    scenario: Scenario
    profile: CostSource | None = None
    mechanism: Mechanism | None = None


class Point(NamedTuple):
    """A case and the summaries of its runs."""

    case: Case
    summaries: tuple[Summary, ...]

    @property
    def verdict(self) -> Verdict:
        """The middle one of the verdicts of the runs."""
        return middle_verdict(summary.verdict for summary in self.summaries)

    def estimate(self, figure: str) -> Estimate:
        """Return the mean of a metric over the runs, and its 95% interval."""
        of = figure_called(figure).of
        return estimate([of(summary) for summary in self.summaries])


@dataclass(frozen=True, repr=False)
class Experiment:
    """All points of an experiment; a notebook shows its picture and its table."""

    title: str
    series: str
    axis: str
    figures: tuple[str, ...]
    points: tuple[Point, ...]
    warnings: tuple[str, ...]
    is_log: bool = False

    @property
    def names(self) -> list[str]:
        """The series, in the order of their first point."""
        return list(dict.fromkeys(point.case.series for point in self.points))

    @property
    def places(self) -> list[float]:
        """The places of the points, ascending."""
        return sorted({point.case.at for point in self.points})

    def point(self, series: str, at: float) -> Point:
        """Return the point of a series at one place.

        Raises
        ------
        UserError
            If there is none.
        """
        for point in self.points:
            if (point.case.series, point.case.at) == (series, at):
                return point
        raise UserError(
            f"{self.axis}: must be one of {', '.join(f'{place:,g}' for place in self.places)} with "
            f"{self.series} one of {', '.join(self.names)}, got {at} and {series}"
        )

    def value(self, figure: str, series: str, at: float) -> float:
        """Return the mean of a metric at one point, to compare a prediction with."""
        return self.point(series, at).estimate(figure).mean

    def values(self, figure: str, series: str) -> list[float]:
        """Return the means of a metric along a series."""
        return [p.estimate(figure).mean for p in self.points if p.case.series == series]

    @property
    def frame(self) -> pd.DataFrame:
        """One row per point: the mean of each metric, and half of its 95% interval."""
        import pandas as pd

        rows = []
        for point in self.points:
            row: dict[str, Any] = {self.series: point.case.series, self.axis: point.case.at}
            for figure in self.figures:
                known = point.estimate(figure)
                row[figure], row[f"{figure}_half_width"] = known.mean, known.half_width
            rows.append({**row, "verdict": str(point.verdict)})
        return pd.DataFrame(rows)

    def plot(self) -> Figure:
        """Return the picture: one panel per metric, one line per series, bars of 95%."""
        return _figure(self)

    @property
    def says(self) -> str:
        """The picture in a sentence, for readers who cannot see it."""
        shown = ", ".join(figure_called(figure).label for figure in self.figures)
        return f"{self.title}: {shown} against {self.axis}, for {', '.join(self.names)}"

    def _table(self) -> str:
        frame = self.frame
        frame = frame.drop(columns=[name for name in frame if str(name).endswith("_half_width")])
        names = {figure: figure_called(figure).label for figure in self.figures}
        shown: dict[Any, Callable[[Any], str]] = dict.fromkeys(names.values(), number)
        shown[self.axis] = "{:,g}".format
        frame = frame.rename(columns=names)
        return str(frame.to_html(index=False, border=0, formatters=shown, na_rep=number(math.nan)))

    def _repr_html_(self) -> str:
        from .drawing import Picture

        picture = Picture(self.plot(), self.says)._repr_html_()
        return f"{picture}<details><summary>The numbers</summary>{self._table()}</details>"

    def __repr__(self) -> str:
        """Return what it is in short: all of its runs would fill a screen."""
        return f"<Experiment at {len(self.points)} points: .frame, .plot(), .value(...)>"


def experiment(
    title: str,
    cases: Sequence[Case],
    *,
    figures: Sequence[str],
    axis: str,
    series: str = "mechanism",
    is_log: bool = False,
) -> Experiment:
    """Run *cases* and return the experiment.

    Parameters
    ----------
    title:
        Title of the picture.
    cases:
        The points, in the order of the table.
    figures:
        Names in `FIGURES`: columns of the table, panels of the picture.
    axis, series:
        Names of `Case.at` and `Case.series`, with the unit.
    is_log:
        Whether the axis is logarithmic.

    Raises
    ------
    UserError, ScenarioError, ProfileError
        If a metric is unknown, there is no case, or a case cannot be run.
    """
    for figure in figures:
        figure_called(figure)
    if not cases:
        raise UserError("cases: must be at least 1, got 0")
    points = tuple(Point(case, summaries(case)) for case in cases)
    warnings = dict.fromkeys(
        warning
        for case in cases
        for warning in warnings_of(case.scenario, case.profile or profile_of(case.scenario))
    )
    return Experiment(title, series, axis, tuple(figures), points, tuple(warnings), is_log)


def summaries(case: Case) -> tuple[Summary, ...]:
    """Return the summaries of the runs of *case*, one per seed."""
    profile = case.profile or profile_of(case.scenario)
    jobs = [job_of(case.scenario, profile, seed) for seed in case.scenario.seeds]
    if case.mechanism is None:
        return tuple(run_job(job).summary for job in jobs)
    found = []
    for job in jobs:
        settings = settings_of(job.scenario, job.network_delay_ns, job.seed, kernel=job.kernel)
        trace = trace_of(job.scenario, job.seed, rows=0)
        costs: Costs = job.costs
        outcome = simulate(case.mechanism, trace, costs, settings, engine="reference")
        found.append(summarise(outcome))
    return tuple(found)


Series = TypeVar("Series")


def cases_over(
    series: Mapping[str, Series], places: Sequence[float], asked: Callable[[Series, Any], Scenario]
) -> list[Case]:
    """Return a case for each of *series* at each of *places*, whose scenario *asked* returns.

    The values of *series* are the first argument of *asked*: a mechanism, the keys of a section.
    """
    return [Case(name, at, asked(own, at)) for name, own in series.items() for at in places]


def open_loop(rate_per_s: float, **more: Any) -> dict[str, Any]:
    """Return the section [load] of an open loop: clients arrive at *rate_per_s* in any case."""
    return {"loop": "open", "rate": f"{rate_per_s}/s", **more}


def stalling(at: str, length_ms: float) -> dict[str, Any]:
    """Return the sections of a scenario whose server stalls once; none for a length of 0."""
    stall = {"kind": "stall", "at": at, "length": f"{length_ms} ms"}
    return {"fault": [stall]} if length_ms > 0 else {}


def scenario(**sections: Any) -> Scenario:
    """Return a scenario of these sections, with the profile and run length of the lessons.

    Raises
    ------
    ScenarioError
        With key, rule and value.
    """
    machine = {"profile": EXAMPLE, **sections.get("machine", {})}
    run = {**RUN, **sections.get("run", {})}
    return Scenario.of(**{**sections, "machine": machine, "run": run})


def times(later: float, earlier: float) -> float:
    """Return *later* over *earlier*; NaN if the ratio is undefined.

    >>> times(30.0, 10.0)
    3.0
    """
    return later / earlier if earlier and math.isfinite(earlier) else math.nan


def _figure(experiment: Experiment) -> Figure:
    """Return the picture of *experiment*."""
    looks = looks_of(experiment.names)
    n = len(experiment.figures)
    n_columns = min(n, COLUMNS)
    n_rows = -(-n // n_columns)
    with style():
        size = (max(5.0, PANEL_WIDTH * n_columns), PANEL_HEIGHT * n_rows + 0.7)
        drawing = Figure(figsize=size, layout="constrained")
        panels = drawing.subplots(n_rows, n_columns, squeeze=False).flat
        for axes in panels[n:]:
            axes.set_visible(False)
        for axes, figure in zip(panels, experiment.figures, strict=False):
            if len(experiment.places) == 1:
                _bars(axes, experiment, figure, looks)
                continue
            for name in experiment.names:
                _line(axes, experiment, name, figure, looks[name])
            known = figure_called(figure)
            axes.set(xlabel=experiment.axis, title=known.label)
            if experiment.is_log:
                axes.set_xscale("log")
            axes.set_xticks(experiment.places, place_labels(experiment.places, experiment.is_log))
            axes.minorticks_off()
            shown = [v for name in experiment.names for v in experiment.values(figure, name)]
            scale_values(axes, shown, is_log=known.is_log, top=known.top)
        if len(experiment.places) == 1:
            where = f"{experiment.places[0]:,g} {experiment.axis}"
            drawing.suptitle(f"{experiment.title}; {where}", fontsize=10)
        else:
            drawing.suptitle(experiment.title, fontsize=10)
            legend(drawing, looks)
    return noted(drawing, experiment.warnings)


def _bars(axes: Axes, experiment: Experiment, figure: str, looks: Mapping[str, Look]) -> None:
    """Draw one bar per series at the only place, as a line needs two places."""
    known = figure_called(figure)
    found = [point.estimate(figure) for point in experiment.points]
    for row, (point, value) in enumerate(zip(experiment.points, found, strict=True)):
        look, width = looks[point.case.series], value.half_width
        axes.barh(
            row, value.mean, xerr=None if math.isnan(width) else width,
            color=look.colour, height=0.6, hatch=HATCHES[row % len(HATCHES)], capsize=2,
        )  # fmt: skip
        box = {"color": "white", "pad": 1.5}
        axes.text(0.02, row, number(value.mean), va="center", bbox=box,
                  transform=axes.get_yaxis_transform())  # fmt: skip
    axes.set_yticks(range(len(found)), [point.case.series for point in experiment.points])
    middle, half = (len(found) - 1) / 2, max(len(found), 3) / 2
    axes.set_ylim(middle + half, middle - half)  # from the top; no bar is a whole panel
    axes.set(title=known.label)
    axes.set_xlim(0, known.top if any(value.mean > 0 for value in found) else 1)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.grid(visible=False, axis="y")


def _line(axes: Axes, experiment: Experiment, name: str, figure: str, look: Look) -> None:
    points = [point for point in experiment.points if point.case.series == name]
    known = [point.estimate(figure) for point in points]
    axes.errorbar(
        [point.case.at for point in points],
        [each.mean for each in known],
        yerr=[0.0 if math.isnan(each.half_width) else each.half_width for each in known],
        color=look.colour, marker=look.marker, linestyle=look.dashes,
        markersize=4, linewidth=1.3, capsize=2, elinewidth=0.9,
    )  # fmt: skip
