"""Rates per CPU time of the run: contestants in turns, several workers, M/M/1.

The contestants take turns, so a disturbance affects all of them. Before the first turn each
simulates every case with few connections. Runs with the same case and number of connections must
have the same outcome in every entry.
"""

from __future__ import annotations

import functools
import math

from . import contestants as c
from .plan import Bench, Job
from .results import Metric
from .scenarios import CLOSED, LOAD_SHARE, OPEN, SEED, Case, scenario_of
from .single_queue import TOOLS, QueueRun, available, draw_customers, run_queue, run_queue_on_epoll

SEVERAL = ((4, 1), (4, 2), (16, 4))
"""Workers and CPUs of the cases with several workers."""
QUEUE = "M/M/1"
_MEANS_DIFFER = 1e-4  # for times in whole nanoseconds, and at least 64 bytes per reply


def speed_jobs(bench: Bench) -> list[Job]:
    """Return the runs of one worker: both loads with every idle count."""
    plan = bench.plan
    loads = [(users, idle) for idle in plan.idle for users in (CLOSED, OPEN)]
    cases = [Case(*load, mechanism=name) for name in plan.mechanisms for load in loads]
    return _in_turns(bench, "speed", cases)


def worker_jobs(bench: Bench) -> list[Job]:
    """Return the runs of several workers."""
    cases = [Case(workers=workers, cpus=cpus) for workers, cpus in SEVERAL]
    return _in_turns(bench, "workers", cases)


def _in_turns(bench: Bench, group: str, cases: list[Case]) -> list[Job]:
    plan, jobs = bench.plan, []
    for name in c.CONTESTANTS:
        bench.note(c.missing(name))
    entries = [
        (case, name)
        for case in cases
        for name in c.CONTESTANTS
        if c.takes_part(name, case) and not c.missing(name)
    ]
    left_out: set[tuple[Case, str]] = set()

    def check(case: Case, name: str) -> None:
        n = c.connections(c.REFERENCE, plan.connections)
        try:
            _checked_run(bench, case, name, n)
        except ValueError as error:
            left_out.add((case, name))
            bench.note(f"{name}, {case}: {error}")

    def repeat(case: Case, name: str) -> None:
        if (case, name) not in left_out:
            ran = _checked_run(bench, case, name, c.connections(name, plan.connections))
            bench.results.add(Metric(group, str(case), name), ran.n / ran.took)

    for turn in range(plan.repetitions + 1):
        do, title = (check, "check") if turn == 0 else (repeat, f"turn {turn}")
        for case, name in entries:
            text = f"{group}, {title}: {name}, {case}"
            jobs.append(Job(text, functools.partial(do, case, name)))
    return jobs


def _checked_run(bench: Bench, case: Case, name: str, n: int) -> c.Ran:
    """Run *name*, and compare its outcome with those of others in the same case.

    Raises
    ------
    DisagreementError
        If an outcome differs in any entry.
    """
    ran = c.run(name, scenario_of(bench.profile, case, n))
    own = c.fingerprint(ran.outcome)
    found, names = bench.outcomes.setdefault((str(case), n), (own, []))
    if own != found:
        raise c.DisagreementError(
            f"{name}, {case}, {n} connections: the outcome differs from that of {names[0]}"
        )
    if name not in names:
        names.append(name)
    return ran


# M/M/1


def queue_jobs(bench: Bench) -> list[Job]:
    """Return the runs of one M/M/1 queue by every tool, and by an engine."""
    plan = bench.plan
    for tool in TOOLS:
        bench.note("" if tool in available() else f"{tool} is not installed: no row")
    engine = best_engine()
    n_few = c.connections(c.REFERENCE, plan.connections)
    means_s: dict[int, float] = {}

    def repeat(name: str) -> None:
        n = plan.connections if name in c.COMPILED else n_few
        customers = draw_customers(n, LOAD_SHARE, SEED)
        ran: QueueRun = (
            run_queue_on_epoll(name, customers) if name in c.ENGINES else run_queue(name, customers)
        )
        check_mean(name, ran, n, means_s.setdefault(n, ran.mean_s))
        bench.results.add(Metric("queue", QUEUE, name), ran.customers / ran.took)

    def check() -> None:
        customers = draw_customers(n_few, LOAD_SHARE, SEED)
        means_s[n_few] = run_queue_on_epoll(engine, customers).mean_s

    names = [engine, *available()]
    turns = [
        Job(f"queue, turn {turn + 1}: {name}", functools.partial(repeat, name))
        for turn in range(plan.repetitions)
        for name in names
    ]
    return [Job(f"queue, check: {engine}", check), *turns]


def check_mean(name: str, ran: QueueRun, n: int, mean_s: float) -> None:
    """Compare a run of the queue with the expected result.

    Raises
    ------
    DisagreementError
        If a customer did not leave, or the mean time in system differs.
    """
    if ran.customers != n:
        raise c.DisagreementError(f"{name}, {QUEUE}: {n} customers came, {ran.customers} left")
    if not math.isclose(ran.mean_s, mean_s, rel_tol=_MEANS_DIFFER):
        raise c.DisagreementError(
            f"{name}, {QUEUE}: the mean time in system is {ran.mean_s} s, not {mean_s} s"
        )


def best_engine() -> str:
    """Return the fastest engine that runs here with any settings."""
    return next(name for name in (c.GENERAL, c.REFERENCE) if not c.missing(name))
