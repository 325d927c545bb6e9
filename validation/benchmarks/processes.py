"""Metrics that need a separate process: whole calls, memory, compiling, starting, a study.

A process is measured from outside, by the resources that the kernel accounts to it and to the
processes that it has waited for (wait4(2)), or it measures itself and prints the result.
"""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from ...calibration.profiles.choosing import example_profile
from ...models.built_in import built_in_programs
from ...sim.state.mechanism import Program
from . import contestants as c
from .plan import Bench, Job
from .results import Metric
from .scenarios import EPOLL, OPEN, Case, scenario_of
from .speed import best_engine

HERE, AGAINST = "here", "other checkout"
SHIPPED = "epoll_10k_idle"
FIRST_RUN, WARM_RUN, HELP = f"first run {SHIPPED}", f"warm run {SHIPPED}", "--help"
STUDY = "480 points, p99 within 10%"
_STUDY_MECHANISMS = (
    "select,poll,epoll_level,epoll_oneshot,epoll_close,kqueue,aio_poll,io_uring"  # all have costs
)
_KIB = 1024
_CACHE_VARIABLE = "DISPATCHSIM_CACHE_DIR"

WHOLE_CALL = """
import sys, time
import dispatchsim as ds
from dispatchsim.models.simulate import simulate_stream
from dispatchsim.sim.load.workload import Load, OpenLoopBlocks

how, rate_per_s, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
costs = ds.example_profile().costs("epoll_level", open_connections=0, free_clients=True)

def call(seconds):
    settings = ds.RunSettings(duration_ns=round((seconds + 1) * 1e9))
    if how == "stream":
        blocks = OpenLoopBlocks(Load("open", rate_per_s=rate_per_s), seconds=seconds, seed=1)
        return simulate_stream("epoll_level", blocks, costs, settings)
    trace = ds.open_loop(rate_per_s=rate_per_s, seconds=seconds, seed=1)
    return ds.summarise(ds.simulate("epoll_level", trace, costs, settings))

call(1_000 / rate_per_s)
began_s = time.process_time()
summary = call(seconds)
print(summary.connections.replied / (time.process_time() - began_s))
"""
"""Prints connections per second of CPU time of a whole call: arrivals, run, summary. It uses only
names that every version has, so that another checkout can run it."""
CALLS = {"simulate": "simulate and summarise", "stream": "simulate_stream"}


class ChildError(RuntimeError):
    """A process has failed; the message names it and its last line."""


class Child(NamedTuple):
    """A process that has ended: wall time, CPU time with that of its own children, output."""

    wall_s: float
    cpu_s: float
    output: str


def run_child(*command: str, **environment: str) -> Child:
    """Run a process to its end in an empty folder, so that a study finds no results to reuse.

    Raises
    ------
    ChildError
        If it fails.
    """
    with (
        tempfile.TemporaryFile("w+") as output,
        tempfile.TemporaryFile("w+") as errors,
        tempfile.TemporaryDirectory() as folder,
    ):
        began_s = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=output, stderr=errors, cwd=folder, env=os.environ | environment
        )
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        wall_s = time.perf_counter() - began_s
        # Popen then has the exit status, and does not wait for the process again.
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (output, errors):
            file.seek(0)
        if process.returncode != 0:
            lines = errors.read().strip().splitlines() or ["no message"]
            shown = " ".join(command[1:])[-60:]
            raise ChildError(f"{shown!r} ended with {process.returncode}: {lines[-1]}")
        return Child(wall_s, usage.ru_utime + usage.ru_stime, output.read())


def child_value(function: str, *arguments: str, **environment: str) -> float:
    """Return the number that a function of this module returns in a separate process."""
    code = f"import sys; from {__name__} import {function}; print({function}(*sys.argv[1:]))"
    child = run_child(sys.executable, "-P", "-c", code, *arguments, **environment)
    return float(child.output.split()[-1])


def _pythons(bench: Bench) -> dict[str, str]:
    against = {AGAINST: os.path.abspath(bench.plan.against)} if bench.plan.against else {}
    return {HERE: sys.executable, **against}


def call_jobs(bench: Bench) -> list[Job]:
    """Return the jobs of whole calls, here and in the other checkout in turns."""
    n = bench.plan.call_connections
    settings = scenario_of(bench.profile, Case(OPEN), 1_000)
    rate_per_s = len(settings.trace) * 1e9 / int(settings.trace.at_ns[-1])

    def call(how: str, subject: str, python: str) -> None:
        seconds = n / rate_per_s
        child = run_child(python, "-P", "-c", WHOLE_CALL, how, str(rate_per_s), str(seconds))
        bench.results.add(Metric("call", CALLS[how], subject), float(child.output))

    return [
        Job(f"call, turn {turn + 1}: {CALLS[how]}, {subject}", functools.partial(call, how, *who))
        for turn in range(bench.plan.repetitions)
        for how in CALLS
        # Interpreted engines do not stream.
        if how != "stream" or best_engine() != c.REFERENCE
        for who in _pythons(bench).items()
        for subject in who[:1]
    ]


def memory_jobs(bench: Bench) -> list[Job]:
    """Return the jobs of peak memory without idle connections, and with very many."""

    def peak(idle: int) -> None:
        found = child_value("peak_memory", engine, str(idle), str(bench.plan.connections))
        bench.results.add(Metric("memory", peak_case(idle), engine), found)

    engine = best_engine()
    return [
        Job(f"memory: {peak_case(idle)}", functools.partial(peak, idle))
        for idle in (0, bench.plan.memory_idle)
    ]


def peak_case(idle: int) -> str:
    """Return the name of the case of the memory with *idle* connections."""
    return f"peak, {idle:,} idle"


def compile_jobs(bench: Bench) -> list[Job]:
    """Return the jobs of compiling into empty caches: one engine, and all built-in ones."""

    def build(name: str, what: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            found = child_value("compilation", name, what, **{_CACHE_VARIABLE: folder})
        bench.results.add(Metric("compile", f"{what}, CPU", name), found)

    names = [name for name in (c.GENERAL, c.FOLDED) if not c.missing(name)]
    jobs = [
        Job(f"compile: {name}, one", functools.partial(build, name, "one"))
        for _ in range(min(3, bench.plan.repetitions))
        for name in names
    ]
    if not bench.plan.quick:
        jobs += [
            Job(f"compile: {name}, all", functools.partial(build, name, "all")) for name in names
        ]
    return jobs


def start_jobs(bench: Bench) -> list[Job]:
    """Return the jobs of starting the command line: with an empty cache, warm, and its help."""

    def start(case: str, subject: str, python: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            cache = {_CACHE_VARIABLE: folder} if case == FIRST_RUN else {}
            arguments = ["--help"] if case == HELP else ["run", SHIPPED]
            record_start(
                bench,
                case,
                subject,
                run_child(python, "-P", "-m", "dispatchsim", *arguments, **cache),
            )

    # Without a C engine a quick benchmark compiles none: a run would take minutes.
    cases = (HELP,) if bench.plan.quick and c.missing(c.GENERAL) else (WARM_RUN, HELP)
    repeated = [
        Job(f"start, turn {turn + 1}: {case}, {subject}", functools.partial(start, case, *who))
        for turn in range(bench.plan.repetitions)
        for case in cases
        for who in _pythons(bench).items()
        for subject in who[:1]
    ]
    if WARM_RUN not in cases:
        return repeated
    first = [
        Job(f"start: {FIRST_RUN}, {subject}", functools.partial(start, FIRST_RUN, subject, python))
        for subject, python in _pythons(bench).items()
    ]
    return [*first, *repeated]


def record_start(bench: Bench, case: str, subject: str, child: Child) -> None:
    """Record both times of a start."""
    bench.results.add(Metric("start", f"{case}, wall", subject), child.wall_s)
    bench.results.add(Metric("start", f"{case}, CPU", subject), child.cpu_s)


def study_jobs(bench: Bench) -> list[Job]:
    """Return the jobs of comparing eight mechanisms at twenty loads with three idle counts."""

    def study(python: str, rates: str, subject: str = "") -> None:
        child = run_child(
            *(python, "-P", "-m", "dispatchsim", "compare", "poll_10k_idle"),
            *("--mechanisms", _STUDY_MECHANISMS, "--vary", f"load.rate={rates}"),
            *("--vary", "idle.connections=0,1000,10000", "--within", "10%"),
        )
        if subject:
            bench.results.add(Metric("study", f"{STUDY}, wall", subject), child.wall_s)
            bench.results.add(Metric("study", f"{STUDY}, CPU", subject), child.cpu_s)

    jobs = []
    for subject, python in _pythons(bench).items():
        warm = functools.partial(study, python, "1000/s")
        timed = functools.partial(study, python, "1000/s..20000/s:20", subject)
        jobs += [Job(f"study, engines: {subject}", warm), Job(f"study: {subject}", timed)]
    return jobs


# In a separate process


def peak_memory(engine: str, idle: str, n: str) -> float:
    """Simulate *n* connections beside *idle* ones; return the most memory of this process."""
    # Not touched beforehand: most data of an idle connection is never read.
    scenario = scenario_of(example_profile(), Case(idle=int(idle)), int(n))
    c.run(engine, scenario, touched=False)
    # Not ru_maxrss, which a process inherits from its parent.
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return float(value.split()[0]) * _KIB
    raise RuntimeError("/proc/self/status has no VmHWM")


def compilation(engine: str, what: str) -> float:
    """Return the CPU seconds from a prepared world to the end of a run of two connections.

    Parameters
    ----------
    engine:
        The name of the contestant.
    what:
        "one": `epoll_level`; "all": every built-in program, except those that the folded engine
        cannot run.
    """
    took_s = 0.0
    for _, program, world in built_in_programs():
        if what == "one" and (program.mechanism.name != EPOLL or program.calls):
            continue
        began_s = _cpu_seconds()
        try:
            _engine(engine, program, world).run()
        except ValueError:
            if engine != c.FOLDED or what == "one":
                raise
        took_s += _cpu_seconds() - began_s
    return took_s


def _engine(name: str, program: Program, world: Any) -> Any:
    return c.c_module().CRun(program, world, duration_ns=1_000, folded=name == c.FOLDED)


def _cpu_seconds() -> float:
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
