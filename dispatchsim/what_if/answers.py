"""The questions about a view, their order, and the answers so far.

A question is a run of one mechanism at one load under one seed:

    Question ─► Scenario ─► Job ─► Outcome ─► Reply

A question is small, and equal to any other with the same content, so it is the key under which its
reply is kept. It is simulated in a process of its own, which needs nothing else. The order:

    level 0   three loads, one short run each       a first picture
    level 1   all loads, one short run each         the curves
    level 2   all loads, three longer runs          the first intervals
    level 3   all loads, up to five long runs       narrower ones

All mechanisms have the same arrivals (common random numbers). Runs of different lengths are never
mixed or compared: at each load all mechanisms show the longest runs of which each has at least
three, and a single short run before.

Source: Law 2015, "Simulation Modeling and Analysis", §9.4 (replications), §10.2 (common random
numbers).
"""

from __future__ import annotations

import functools
import itertools
import math
import multiprocessing
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..calibration.running.compiling import warm
from ..calibration.running.preparation import job_of, record_job
from ..scenario.metrics import metrics_of
from ..scenario.scenario import Scenario
from ..sim.figures.summary import Verdict, middle_verdict, summarise
from ..studies.rows import Estimate, estimate
from .choices import RATE, profiles
from .view import RunLength, View

_NICE = 5
_SAMPLES_MAX = 100
"""Queue lengths sent for a chart that is some three hundred pixels wide."""


class Question(NamedTuple):
    """A run.

    Attributes
    ----------
    view:
        A view of one mechanism at the rate of the run.
    duration_ms:
        Length of the run; see `view.RunLength`.
    seed:
        Seed of its arrivals, the same for all mechanisms.
    """

    view: View
    duration_ms: int
    seed: int

    @property
    def mechanism(self) -> str:
        """The mechanism of the run."""
        return self.view.mechanisms[0]


@dataclass(frozen=True)
class Reply:
    """The result of a run.

    `figures` as from `metrics_of`, `fates` of the clients that arrived in the window by name,
    `queues` as rows of (ms from the start, accept queue, ready, open connections).
    """

    figures: dict[str, float]
    fates: dict[str, int]
    verdict: Verdict
    queues: tuple[tuple[float, int, int, int], ...]


def reply_politely(question: Question, engine: str) -> Reply:
    """Do what `reply_to` does, in a process of lower priority than the one that serves the pages.

    A thread must keep its priority: it could be suspended while it holds the interpreter's lock.
    """
    if multiprocessing.parent_process() is not None:
        _give_way(_NICE)
    return reply_to(question, engine)


def reply_to(question: Question, engine: str) -> Reply:
    """Simulate on *engine*: "auto" uses compiled code, "reference" needs none."""
    run = RunLength(question.duration_ms, 1)
    job = job_of(
        question.view.scenario(run, engine), profiles()[question.view.profile], question.seed
    )
    _, outcome = record_job(job)
    summary = summarise(outcome)
    fates = {name: n for name, n in summary.fates.items() if n > 0}
    every = max(1, -(-len(outcome.samples) // _SAMPLES_MAX))
    queues = tuple(
        (row[0] / 1e6, row[2], row[3], row[4]) for row in outcome.samples[::every].tolist()
    )
    return Reply(metrics_of(summary), fates, summary.verdict, queues)


@functools.cache
def _give_way(niceness: int) -> None:
    """Lower the priority of this process, once: the server of the pages must not wait for it."""
    os.nice(niceness)


def prepare(profile: str, mechanisms: Sequence[str]) -> None:
    """Load the compiled engines of *mechanisms*, or compile what is missing."""
    for name in mechanisms:
        warm(name, profiles()[profile].costs(name, open_connections=0))


_REQUESTS_OF_A_RUN = (3_000, 12_000, 40_000)
_SHORTEST_MS = (100, 300, 800)
_LONGEST_MS = (1_000, 2_000, 4_000)
_REPLICATIONS = (1, 3, 5)
REQUESTS_MAX = 25_000_000
"""Most requests simulated for one view, some twenty seconds of a processor."""
_ENOUGH = 3
"""Number of longer runs that replace a shorter one: the interval of two runs is too wide."""
_STEPS_BELOW, _STEPS_ABOVE = 6, 3


class Asked(NamedTuple):
    """A question and its urgency: 0 if a viewer waits for it."""

    level: int
    question: Question


@dataclass(frozen=True, eq=False)
class Row:
    """The runs shown of one mechanism at one load."""

    mechanism: str
    rate: int
    run: RunLength
    replies: tuple[Reply, ...]
    _known: dict[str, Estimate] = field(default_factory=dict)

    def estimate(self, figure: str) -> Estimate:
        """Return mean and 95% interval of a metric; the interval of a single run is NaN."""
        found = self._known.get(figure)
        if found is None:
            found = estimate([reply.figures[figure] for reply in self.replies], least=0)
            self._known[figure] = found
        return found

    @functools.cached_property
    def verdict(self) -> Verdict:
        """The middle one of its runs' verdicts."""
        return middle_verdict(reply.verdict for reply in self.replies)

    @functools.cached_property
    def keeps_up(self) -> bool:
        """Whether the server does not fall behind and less than 1% of clients fail in each run.

        The verdict alone would allow nearly 5% failures; the p99 over all clients does not.
        """
        fails = math.isinf(self.estimate("p99_ns").mean)
        return not fails and self.verdict in (Verdict.STABLE, Verdict.BACKLOGGED)

    @property
    def fates(self) -> dict[str, float]:
        """The share of clients by fate, over all runs."""
        n_clients = max(1, sum(sum(reply.fates.values()) for reply in self.replies))
        names = dict.fromkeys(name for reply in self.replies for name in reply.fates)
        return {
            name: sum(reply.fates.get(name, 0) for reply in self.replies) / n_clients
            for name in names
        }


def loads_of(view: View) -> tuple[int, ...]:
    """Return the loads of *view*, ascending: from a quarter of the chosen one to its double.

    They are steps of the slider, so views along a drag of the slider share most of them.
    """
    steps = sorted({*RATE.values, view.rate})
    at = steps.index(view.rate)
    return tuple(steps[max(0, at - _STEPS_BELOW) : at + _STEPS_ABOVE + 1])


def runs_of(view: View, n_mechanisms: int) -> tuple[RunLength, ...]:
    """Return the lengths of runs, coarse ones first, within the limit of requests."""
    loads, found = loads_of(view), []
    for i, requests in enumerate(_REQUESTS_OF_A_RUN):
        ms = 1_000 * requests / view.requests_per_s
        ms = min(_LONGEST_MS[i], max(_SHORTEST_MS[i], ms))
        duration_ms = 10 * max(1, round(ms / 10))
        each = view.requests_per_s / view.rate * duration_ms / 1_000 * sum(loads) * n_mechanisms
        fit = int(REQUESTS_MAX / len(_REQUESTS_OF_A_RUN) / max(each, 1))
        if i == 0 or fit >= _ENOUGH:
            found.append(RunLength(duration_ms, max(1, min(_REPLICATIONS[i], fit))))
    return tuple(found)


def questions_of(view: View, mechanisms: Sequence[str]) -> list[Asked]:
    """Return all questions about *mechanisms* in *view*, the most urgent first."""
    loads = loads_of(view)
    first = sorted({view.rate, *_ends(view, loads)}, key=lambda load: load != view.rate)
    rest = [load for load in loads if load not in first]
    coarse, *finer = runs_of(view, len(mechanisms))

    def level(number: int, some: Iterable[int], run: RunLength) -> list[Asked]:
        return [
            Asked(number, Question(view.alone(name, load), run.duration_ms, seed))
            for seed in range(1, run.replications + 1)
            for load in some
            for name in mechanisms
        ]

    found = level(0, first, coarse) + level(1, rest, coarse)
    for number, run in enumerate(finer, start=2):
        found += level(number, (*first, *rest), run)
    return found


def _ends(view: View, loads: Sequence[int]) -> tuple[int, int]:
    """Return about half and about double the chosen load."""
    at = loads.index(view.rate)
    return loads[max(0, at - 3)], loads[-1]


class Answer:
    """The answer about a view; it grows as replies arrive.

    Parameters
    ----------
    view, mechanisms:
        The view, and those of its mechanisms that can be simulated.
    """

    def __init__(self, view: View, mechanisms: Sequence[str]) -> None:
        self.view = view
        self.mechanisms = tuple(mechanisms)
        self.asked = questions_of(view, mechanisms) if mechanisms else []
        self._runs = runs_of(view, len(mechanisms)) if mechanisms else ()
        self._wanted = {asked.question: asked.level for asked in self.asked}
        self._replies: dict[Question, Reply] = {}
        self._failed: set[Question] = set()
        self._rows: dict[tuple[str, int], Row | None] = {}  # those that no reply has changed
        self._questions: dict[tuple[str, int, RunLength], list[Question]] = {}

    def add(self, question: Question, reply: Reply | None) -> bool:
        """Add a reply (None: the run failed); return whether it belongs to this view."""
        if question not in self._wanted:
            return False
        if reply is None:
            self._failed.add(question)
        else:
            self._replies[question] = reply
        for name in self.mechanisms:  # they show runs of the same length
            self._rows.pop((name, question.view.rate), None)
        return True

    @property
    def n_known(self) -> int:
        """The number of questions that have a reply or failed."""
        return len(self._replies) + len(self._failed)

    @property
    def is_first_known(self) -> bool:
        """Whether all questions of urgency 0 are done."""
        done = self._replies.keys() | self._failed
        return all(question in done for question, level in self._wanted.items() if level == 0)

    @property
    def is_finished(self) -> bool:
        """Whether all questions are done."""
        return self.n_known == len(self._wanted)

    def row(self, mechanism: str, rate: int) -> Row | None:
        """Return the runs shown of *mechanism* at *rate*."""
        if (mechanism, rate) not in self._rows:
            self._rows[mechanism, rate] = self._row(mechanism, rate)
        return self._rows[mechanism, rate]

    def _row(self, mechanism: str, rate: int) -> Row | None:
        best = None
        for run in self._runs:
            own = self._found(mechanism, rate, run)
            if not own:
                continue
            # Do not wait for a mechanism whose runs of this length fail.
            n_of_all = min(
                len(self._found(name, rate, run))
                for name in self.mechanisms
                if not self._is_hopeless(name, rate, run)
            )
            if n_of_all >= min(_ENOUGH, run.replications):
                best = Row(mechanism, rate, run, own[:n_of_all])
            elif best is None:
                best = Row(mechanism, rate, run, own[: max(1, n_of_all)])
        return best

    def _found(self, mechanism: str, rate: int, run: RunLength) -> tuple[Reply, ...]:
        """Return the replies of runs of this length up to the first missing seed."""
        asked = self._asked_of(mechanism, rate, run)
        return tuple(
            self._replies[each] for each in itertools.takewhile(self._replies.__contains__, asked)
        )

    def _is_hopeless(self, mechanism: str, rate: int, run: RunLength) -> bool:
        """Return whether runs of this length fail."""
        return next(iter(self._asked_of(mechanism, rate, run))) in self._failed

    def _asked_of(self, mechanism: str, rate: int, run: RunLength) -> list[Question]:
        key = (mechanism, rate, run)
        if key not in self._questions:
            alone = self.view.alone(mechanism, rate)
            self._questions[key] = [
                Question(alone, run.duration_ms, seed + 1) for seed in range(run.replications)
            ]
        return self._questions[key]

    def rows(self, mechanism: str) -> list[Row]:
        """Return the runs of *mechanism*, by ascending load."""
        found = (self.row(mechanism, load) for load in loads_of(self.view))
        return [row for row in found if row is not None]

    @property
    def chosen(self) -> list[Row]:
        """The runs at the chosen load, one row per mechanism."""
        found = (self.row(name, self.view.rate) for name in self.mechanisms)
        return [row for row in found if row is not None]

    def scenario(self) -> Scenario:
        """Return the scenario of the first mechanism that can be simulated at the chosen load.

        Its run length and seeds are those shown for all mechanisms there.
        """
        name = (self.mechanisms or self.view.mechanisms)[0]
        return self.view.alone(name, self.view.rate).scenario(self.run)

    @property
    def run(self) -> RunLength:
        """The shortest run length shown at the chosen load, and the number of its runs."""
        rows = self.chosen
        if not rows:
            return self._runs[0] if self._runs else RunLength(1_000, 1)
        row = min(rows, key=lambda each: (each.run.duration_ms, len(each.replies)))
        return RunLength(row.run.duration_ms, len(row.replies))
