"""One question, one answer: a run of one mechanism at one load under one seed.

    Question ─► Scenario ─► Job ─► Outcome ─► Reply

A question is small and equal to any other that asks the same, so that answers can be remembered
by it; it is put to a process of its own, which needs nothing else.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..running.compiling import warm
from ..running.preparation import job_of, record_job
from ..scenario.metrics import metrics_of
from ..sim.figures.metrics import Verdict, summarise
from .choices import profiles
from .view import RunLength, View

_NICE = 5
_SAMPLES_MAX = 100
"""Queue lengths that are sent for a chart of some three hundred dots' width."""


class Question(NamedTuple):
    """A run.

    Attributes
    ----------
    view:
        Of one mechanism, whose rate is that of the run.
    duration_ms:
        Of the run; see `view.RunLength`.
    seed:
        Of its arrivals, which are the same for all mechanisms.
    """

    view: View
    duration_ms: int
    seed: int

    @property
    def mechanism(self) -> str:
        """The one that is asked about."""
        return self.view.mechanisms[0]


@dataclass(frozen=True)
class Reply:
    """What a run says.

    `figures` as of `metrics_of`, `fates` of the clients that came in the window by name, `queues`
    as rows of (ms from the start, accept queue, ready, open connections).
    """

    figures: dict[str, float]
    fates: dict[str, int]
    verdict: Verdict
    queues: tuple[tuple[float, int, int, int], ...]


def reply_politely(question: Question, engine: str) -> Reply:
    """Do what `reply_to` does, in a process that gives way to the one that serves the pages.

    A thread must not give way: it could be kept waiting while it holds the interpreter's lock.
    """
    if multiprocessing.parent_process() is not None:
        _give_way(_NICE)
    return reply_to(question, engine)


def reply_to(question: Question, engine: str) -> Reply:
    """Simulate, on *engine*: "auto" takes compiled code, "reference" needs none."""
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
    """Let this process have what others leave, once: who serves the pages must not wait for it."""
    os.nice(niceness)


def prepare(profile: str, mechanisms: Sequence[str]) -> None:
    """Load the compiled engines of *mechanisms*, or compile what is missing."""
    for name in mechanisms:
        warm(name, profiles()[profile].costs(name, open_connections=0))
