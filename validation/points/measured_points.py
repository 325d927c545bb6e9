"""Measured runs, grouped by operating point: medians over repeats, and their scatter.

    run, run, run, ...  ──gate──►  accepted  ──median──►  metrics of the point
                          └──────► rejected, counted        ± range of the repeats

The median is used because a disturbed repeat that passed the gate moves it least. The scatter is
the range of the repeats; with six or more it is the 95% interval of their median
(`range_of_repeats`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from ...calibration.points.point import Point
from ...calibration.profiles.gap_recordings import in_order
from ...calibration.records.generator_gate import is_timed, judged, offered_share
from ...calibration.records.measured_runs import RunRecord, read_rows
from ...calibration.records.noise import judged_by_file
from ...calibration.records.precision import range_of_repeats
from ...sim.figures.summary import Verdict, verdict_of
from ...sim.figures.tally import progress_of_totals
from ...sim.state.host_gaps import HostGaps
from ...sim.state.units import SECOND_NS
from .figures import NAN, Figures, median, ratio

FOREIGN_SHARE_MAX = 0.05
"""Share of other programs on the server's CPU above which busy time is not the server's."""
REACHED, MISSED = "reached", "missed"
"""A bound, by a forecast."""


def held_out_runs(folder: Path) -> list[RunRecord]:
    """Return the held-out runs in a machine's *folder*, each judged with all of its file.

    Raises
    ------
    DataError
        If they have another format.
    """
    return judged_by_file(read_rows(folder / "heldout.jsonl", RunRecord).rows)


def accepted_held_out(folder: Path) -> list[RunRecord]:
    """Return the `held_out_runs` that passed the noise gate; same errors."""
    return [run for run in held_out_runs(folder) if run.accepted]


class Spread(NamedTuple):
    """The scatter of repeats: `range_of_repeats`, coefficient of variation."""

    low: float
    high: float
    cv: float


_UNKNOWN = Spread(NAN, NAN, NAN)


class Spreads(NamedTuple):
    """The scatter of each of the `Figures`."""

    throughput_per_s: Spread
    cpu_busy: Spread
    process_ns_per_request: Spread
    p50_ns: Spread
    p99_ns: Spread
    events_per_wait: Spread
    p999_ns: Spread = _UNKNOWN
    interrupts_per_request: Spread = _UNKNOWN


class GeneratorFigures(NamedTuple):
    """Whether the load generator kept up over the accepted repeats of a point; NaN: unknown.

    Attributes
    ----------
    offered_share:
        The lowest offered share of the requested load; NaN in a closed loop.
    lag_p50_ns, lag_p99_ns, lag_max_ns:
        Lateness of its connections or requests: medians over repeats, and the maximum.
    n_limited:
        Repeats in which it was the limit by the present gate (generator_gate.py), and which were
        accepted before that gate existed.
    """

    offered_share: float
    lag_p50_ns: float
    lag_p99_ns: float
    lag_max_ns: float
    n_limited: int


@dataclass(frozen=True)
class MeasuredPoint:
    """All repeats of one point.

    `median` and `spread` are over the accepted repeats (NaN without any). The lengths are medians
    in whole 10 ms, so that harmless jitter of the harness does not change a simulation. `own_gaps`
    has the seed and gaps of each run that recorded the gaps of the load generator's CPU.
    `generator` is None for other load generators than the project's own.
    """

    point: Point
    median: Figures
    spread: Spreads
    n_accepted: int
    n_rejected: int
    seeds: tuple[int, ...]
    warm_up_ns: int
    window_ns: int
    offered_per_s: float
    verdict: Verdict
    own_gaps: tuple[tuple[int, HostGaps], ...] = ()
    generator: GeneratorFigures | None = None

    @classmethod
    def of(
        cls,
        point: Point,
        rows: Sequence[Figures],
        verdicts: Iterable[Verdict],
        *,
        spread_of: Callable[[Sequence[float]], Spread],
        **others: Any,
    ) -> Self:
        """Return the point whose accepted repeats have the metrics *rows* and *verdicts*.

        *spread_of* takes the values of one metric; *others* are the other fields.
        """
        columns = list(zip(*rows, strict=True)) or [()] * len(Figures._fields)
        severities = sorted(verdicts, key=list(Verdict).index)
        return cls(
            point=point,
            median=Figures(*map(median, columns)),
            spread=Spreads(*map(spread_of, columns)),
            n_accepted=len(rows),
            verdict=severities[len(severities) // 2] if severities else Verdict.STABLE,
            **others,
        )

    @property
    def measured(self) -> bool:
        """Return whether any repeat was accepted."""
        return self.n_accepted > 0

    @property
    def kept_up(self) -> bool:
        """Return whether the load generator was the limit in no accepted repeat."""
        return self.generator is None or self.generator.n_limited == 0


def figures_of_run(record: RunRecord) -> Figures:
    """Return the metrics of a measured run; CPU is NaN if other programs used much of it."""
    result = record.result
    is_quiet = record.noise.foreign_share < FOREIGN_SHARE_MAX
    latency = result.latency_ns
    waits = result.calls.get("waits", 0)
    return Figures(
        throughput_per_s=result.replied * SECOND_NS / record.window_ns,
        cpu_busy=result.cpu.busy_ns / record.window_ns if is_quiet else NAN,
        process_ns_per_request=ratio(result.cpu.process_ns, result.replied),
        p50_ns=latency.p50 if latency else NAN,
        p99_ns=latency.p99 if latency else NAN,
        events_per_wait=ratio(result.calls.get("events", 0), waits),
        p999_ns=_known(latency.p999) if latency else NAN,
        interrupts_per_request=ratio(result.cpu.n_calls, result.replied) or NAN,  # 0: not counted
    )


def group(records: Iterable[RunRecord]) -> list[MeasuredPoint]:
    """Return one entry for each point, in order of first appearance."""
    by_point: dict[Point, list[RunRecord]] = {}
    for record in records:
        by_point.setdefault(record.point, []).append(record)
    return [_measured_point(point, runs) for point, runs in by_point.items()]


def _measured_point(point: Point, runs: Sequence[RunRecord]) -> MeasuredPoint:
    accepted = [run for run in runs if run.accepted]
    used = accepted or runs
    offered = [run.result.offered * SECOND_NS / run.window_ns for run in accepted]
    return MeasuredPoint.of(
        point,
        [figures_of_run(run) for run in accepted],
        map(verdict_of_run, accepted),
        spread_of=spread,
        n_rejected=len(runs) - len(accepted),
        seeds=tuple(sorted({run.seed for run in used})),
        warm_up_ns=whole_ten_ms([run.warm_up_ns for run in used]),
        window_ns=whole_ten_ms([run.window_ns for run in used]),
        offered_per_s=median(offered),
        own_gaps=own_gaps_of(accepted),
        generator=_generator(accepted),
    )


def own_gaps_of(runs: Iterable[RunRecord]) -> tuple[tuple[int, HostGaps], ...]:
    """Return the seed and gaps of each of *runs* that recorded the load generator's CPU.

    Gaps are replayed once, from the start of the run. Gaps in the untimed part of the window are
    left out: a simulated window has no such part, so its response times would include the readings
    of counters, which measured ones do not.
    """
    found = []
    for run in runs:
        if run.client_gaps is not None:
            gaps, begin_ns = run.client_gaps.of_run, run.warm_up_ns
            pieces = _outside(
                zip(gaps.at_ns, gaps.length_ns, strict=True), begin_ns, run.untimed_ns
            )
            at_ns, length_ns = ([piece[i] for piece in pieces] for i in (0, 1))
            end_ns = begin_ns + run.window_ns
            found.append((run.seed, in_order(at_ns, length_ns, end_ns, is_drawn=False)))
    return tuple(found)


def _outside(
    gaps: Iterable[tuple[int, int]], begin_ns: int, length_ns: int
) -> list[tuple[int, int]]:
    """Return the parts of *gaps* outside the *length_ns* from *begin_ns*: begins and lengths.

    >>> _outside([(10, 5), (18, 4), (28, 7), (40, 1)], 20, 10)
    [(10, 5), (18, 2), (30, 5), (40, 1)]
    """
    if not length_ns:
        return list(gaps)
    pieces = []
    for from_ns, gap_ns in gaps:
        until_ns = from_ns + gap_ns
        before = from_ns, min(until_ns, begin_ns)
        behind = max(from_ns, begin_ns + length_ns), until_ns
        pieces += [(a, b - a) for a, b in (before, behind) if b > a]
    return pieces


def _generator(runs: Sequence[RunRecord]) -> GeneratorFigures | None:
    """Return how well the load generator kept up in *runs*; None without runs."""
    if not runs:
        return None
    shares = [offered_share(run) if is_timed(run.point) else NAN for run in runs]
    clients = [run.result.client for run in runs]
    return GeneratorFigures(
        offered_share=min(shares),
        lag_p50_ns=median([float(client.lag_p50_ns) for client in clients]),
        lag_p99_ns=median([_known(client.lag_p99_ns) for client in clients]),
        lag_max_ns=max(client.lag_max_ns for client in clients),
        n_limited=sum(run.accepted and not judged(run).accepted for run in runs),
    )


def _known(value: float | None) -> float:
    return NAN if value is None else value


def verdict_of_run(record: RunRecord) -> Verdict:
    """Return the state of the real server, by the criterion of `sim.metrics.verdict`.

    A record holds totals, not the connections open at both ends of the window. The growth is the
    number offered minus the number ended in the window. By Little's law, offered rate times mean
    latency were open at its beginning. If nothing was offered, the users of a closed loop wait.
    """
    result = record.result
    n_offered = result.offered
    n_errors = sum(result.errors.model_dump().values())
    n_replied = result.replied / record.point.replies_each
    growth = n_offered - n_replied - n_errors
    mean_ns = result.latency_ns.mean if result.latency_ns else 0.0
    n_open = n_offered * mean_ns / record.window_ns
    n_waiting = n_open + growth if n_offered > 0 else record.point.users
    progress = progress_of_totals(n_replied, n_waiting)
    return verdict_of(growth, n_open, n_offered, n_errors, progress=progress)


def spread(values: Sequence[float]) -> Spread:
    """Return the `range_of_repeats` of *values* and their CV; NaN for less than two."""
    known = np.array([value for value in values if not math.isnan(value)])
    if known.size < 2:
        return _UNKNOWN
    low, high = range_of_repeats(values)
    return Spread(low, high, ratio(float(known.std(ddof=1)), float(known.mean())))


def whole_ten_ms(values_ns: Sequence[int]) -> int:
    """Return the median of *values_ns* in whole 10 ms."""
    return round(float(np.median(values_ns)) / 10_000_000) * 10_000_000
