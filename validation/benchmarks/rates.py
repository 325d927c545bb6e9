"""Connections and customers a second: who is timed, in which order, and that all do the same."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path

from ...calibration.cost_profile import Profile
from .contestants import (
    BY_HAND,
    ENGINES,
    EPOLL_ONLY,
    FAST,
    FIRST_MODEL,
    REFERENCE,
    DisagreementError,
    Row,
    bytes_per_connection,
    run_engine,
)
from .plan import Plan
from .queue_on_epoll import run_queue_on_epoll
from .scenarios import LOAD_SHARE, MECHANISMS, QUEUE, SEED, USERS, Case, costs_of, scenario_of
from .single_queue import Customers, QueueRun, available, draw_customers, run_queue
from .timing import Measured, interleave

Measurements = dict[Row, list[Measured]]
Told = Callable[[], None]
_MEANS_DIFFER = 1e-4  # for times in whole nanoseconds, and 64 bytes a reply


class EngineTimes:
    """The engines' part of the table.

    Parameters
    ----------
    plan, profile:
        How much is measured, at which costs.
    by_hand:
        The folder of the compiled C program; None: there is none.
    """

    def __init__(self, plan: Plan, profile: Profile, by_hand: Path | None) -> None:
        self.plan = plan
        self.profile = profile
        self.by_hand = by_hand
        self.cases = [Case(*case) for case in product(MECHANISMS, plan.idle, USERS)]
        # Those who simulate the same case are neighbours in time as well.
        self.rows = [
            Row(engine, case)
            for case in self.cases
            for engine in ENGINES
            if (case.mechanism == "epoll_level" or engine not in EPOLL_ONLY)
            and (engine != BY_HAND or by_hand is not None)
        ]
        slow = {
            row for row in self.rows if row.engine == FIRST_MODEL and plan.is_slow(row.case.idle)
        }
        self.once = slow if plan.slow_once else set()
        self.weighed = [row for row in self.rows if plan.slow_weighed or row not in slow]
        n_timed = plan.repetitions * (len(self.rows) - len(self.once)) + len(self.once)
        self.steps = len(self.cases) + n_timed + len(self.weighed)

    def measure(self, told: Told) -> Measurements:
        """Check that all agree, time them in turns, weigh them; *told* hears of every step."""
        for case in self.cases:
            self.check(case)
            told()
        timed = interleave(
            {row: functools.partial(self.time, row) for row in self.rows},
            self.plan.repetitions,
            once=self.once,
            told=told,
        )
        for row in self.weighed:
            costs = costs_of(self.profile, row.case)
            weight = bytes_per_connection(row, costs, self.connections(row.engine), self.by_hand)
            timed[row] = [m._replace(bytes_per_connection=weight) for m in timed[row]]
            told()
        return timed

    def connections(self, engine: str) -> int:
        """Return how many connections a run of *engine* simulates."""
        if engine == REFERENCE:
            return self.plan.reference_connections
        if engine == FIRST_MODEL:
            return self.plan.first_model_connections
        return self.plan.connections

    def time(self, row: Row) -> Measured:
        """Return one repetition of *row*."""
        costs = costs_of(self.profile, row.case)
        scenario = scenario_of(row.case, costs, self.connections(row.engine))
        return run_engine(row.engine, scenario, self.by_hand).measured

    def check(self, case: Case) -> None:
        """Compare the outcomes of all who simulate *case* to the nanosecond.

        The first model is close, not equal: it must have answered all, as in every run.

        Raises
        ------
        DisagreementError
            If two outcomes differ in any entry.
        """
        for engine in (REFERENCE, BY_HAND):
            if Row(engine, case) in self.rows:
                costs = costs_of(self.profile, case)
                scenario = scenario_of(case, costs, self.connections(engine))
                ours = run_engine(FAST, scenario).outcome
                theirs = run_engine(engine, scenario, self.by_hand).outcome
                assert ours is not None
                assert theirs is not None
                if not ours.same_as(theirs):
                    raise DisagreementError(f"{Row(engine, case)}: not the outcome of {FAST}")


class QueueTimes:
    """The part of the table in which all simulate one M/M/1 queue."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rows = [Row(tool, Case(QUEUE)) for tool in (FAST, *available())]
        self.steps = len(self.rows) * (1 + plan.repetitions)

    def measure(self, told: Told) -> Measurements:
        """Check that all find the same mean, then time them in turns."""
        customers = draw_customers(self.plan.reference_connections, LOAD_SHARE, SEED)
        found: dict[str, float] = {}
        for engine, _ in self.rows:
            found[engine] = _run(engine, customers).mean_s
            told()
        check_means(found)
        many = draw_customers(self.plan.connections, LOAD_SHARE, SEED)
        cases = {
            row: functools.partial(self.time, row.engine, many if row.engine == FAST else customers)
            for row in self.rows
        }
        return interleave(cases, self.plan.repetitions, told=told)

    @staticmethod
    def time(engine: str, customers: Customers) -> Measured:
        """Return one repetition of *engine*."""
        run = _run(engine, customers)
        if run.customers != customers.gap_s.size:
            raise DisagreementError(
                f"{engine}, {QUEUE}: {customers.gap_s.size} customers came, {run.customers} left"
            )
        return Measured(run.customers, run.run_s, run.set_up_s)


def check_means(mean_s: dict[str, float]) -> None:
    """Compare the mean times in system of the same customers.

    Raises
    ------
    DisagreementError
        If one is not that of the fast engine.
    """
    for engine, mean in mean_s.items():
        if not math.isclose(mean, mean_s[FAST], rel_tol=_MEANS_DIFFER):
            raise DisagreementError(
                f"{engine}, {QUEUE}: the mean time in system is {mean} s, not {mean_s[FAST]} s"
            )


def _run(engine: str, customers: Customers) -> QueueRun:
    return run_queue_on_epoll(customers) if engine == FAST else run_queue(engine, customers)
