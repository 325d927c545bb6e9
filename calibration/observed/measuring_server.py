"""Measure a server that is not ours: count its system calls once, then make timed runs.

    command or pid, port, protocol, keys, loads, repeats ──► ServerPlan

    start ─► preload ─► greet ─► count calls ─► calls.jsonl     once, a server of its own
    start ─► preload ─► greet ─► rounds of runs ─► runs.jsonl   each run kept as it ends
                                       └─► rejected: at most two further tries
    costs ─► run ─► costs ─► run ─► costs         of short benches, and of our own server

A load that is known precisely enough is not measured again. Finished runs are on disk, so the same
command resumes where it was stopped. A failed run is kept, too: it is not accepted, and has a
reason. preloading.py stores the keys; it runs on the clients' side.
"""

from __future__ import annotations

import contextlib
import math
import shlex
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..measure.calm import CalmCore
from ..measure.campaign import (
    Campaign,
    CampaignError,
    CampaignProgress,
    CampaignSummary,
    ProgressCallback,
    Task,
    alone,
    note_machine,
)
from ..measure.macro import Timing
from ..measure.quietness import TestbedRecorder, check_quiet
from ..measure.surroundings import REFERENCE, Surroundings
from ..points.point import Point, point_at
from ..records.measured_runs import append
from ..records.noise import Series
from ..records.precision import REPEATS_LEAST, WITHIN, Scatter, noise_text, scatter, widest
from ..testbed.c_build import build
from ..testbed.machine_facts import machine_facts, now_text
from ..testbed.processes import PRIORITY_HIGHEST, Child, RunError
from ..testbed.testbed import Steering, Testbed, open_testbed
from . import preloading
from .counting import choose_and_count, greet
from .observed_run import ObservedRun, ObservedServer, observed_run, read_observed
from .observing import (
    LATE,
    TOOLS,
    Asking,
    Bench,
    Driver,
    load_fields,
    observe,
    own_load,
    why_not,
)
from .operating_point import KEPT
from .run_files import RUNS_FILE
from .server_process import BlackBox, attached, ports_here, started, testbed_of

ROUNDS_MOST = 10
OWN = "own"
"""The driver that uses our load generator."""
NO_TRACER = "none"
KEYED = ("memcached", "resp")
"""Protocols whose clients request keys."""


@dataclass(frozen=True)
class ServerPlan:
    """The runs to make of a server.

    Attributes
    ----------
    command, pid:
        The command that starts the server, with `{address}` for its address; or the process
        number of a running server.
    port, address:
        Where it listens; the address only of a running server.
    asking, value_bytes:
        The requests of clients, and the size of the values that they request.
    loads, repeats:
        The loads, and the most runs of each.
    within:
        Stop measuring a load with three accepted runs once the 95% intervals of mean replies/s
        and mean CPU are at most this share to either side; None: make all repeats.
    budget_s:
        No run begins later than this.
    anyway:
        Measure even on a noisy machine.
    driver:
        OWN, or one of `observing.TOOLS`.
    tracer:
        One of `tracers.TRACERS`, NO_TRACER, or empty: the first that works.
    environment:
        Environment variables of the server, besides those of this process.
    timing:
        The lengths of the parts of a run.
    said:
        Habits that the user states; they override what is recognised.
    """

    port: int
    command: str = ""
    pid: int = 0
    address: str = "127.0.0.1"
    asking: Asking = field(default_factory=Asking)
    value_bytes: int = 100
    loads: tuple[Point, ...] = ()
    repeats: int = ROUNDS_MOST
    within: float | None = WITHIN
    budget_s: float = math.inf
    anyway: bool = False
    driver: str = OWN
    tracer: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    said: ObservedServer = field(default_factory=ObservedServer)

    @property
    def asked(self) -> str:
        """The request in words; the cost of a request depends on it."""
        asking = self.asking
        if asking.protocol in KEYED:
            return f"GET of {asking.keys} keys of {self.value_bytes} bytes"
        return f"GET {asking.path} of {asking.host}"

    def command_text(self) -> str:
        """Return the command that started the server, for the record."""
        if self.pid:
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{self.pid}/cmdline").read_text(errors="replace").split("\0")
                return " ".join(words).strip()
            return ""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*settings, self.command])


_SECONDS_MAX = 60.0


def store_keys(name: str, port: int, asking: Asking, value_bytes: int, testbed: Testbed) -> None:
    """Store a value of *value_bytes* under each key of *asking* at the server *name*.

    Raises
    ------
    RunError
        If the server does not store it.
    """
    command = testbed.on_client(
        sys.executable, "-I", str(preloading.__file__), asking.protocol, testbed.address,
        str(port), asking.key_prefix, str(asking.keys), str(value_bytes),
    )  # fmt: skip
    with Child("preloading", command, cpu=testbed.client_cpu, priority=PRIORITY_HIGHEST) as child:
        said = child.read_all(timeout_s=_SECONDS_MAX)
    if said != ["done"]:
        why = said[-1] if said else "it printed no reason"
        raise RunError(f"{name} does not store the keys that clients will request: {why}")


CALLS_FILE = "calls.jsonl"
_COUNTING_S = 3.0


@dataclass
class ServerMeasured:
    """The content of the folder: runs of all loads, and the run whose calls were counted."""

    summary: CampaignSummary
    runs: list[ObservedRun]
    counted: ObservedRun | None


def measure_server(
    plan: ServerPlan,
    folder: Path,
    *,
    steering: Steering | None = None,
    progress: ProgressCallback = lambda _: None,
) -> ServerMeasured:
    """Make the runs of *plan* that *folder* lacks; return all runs that it then holds.

    Raises
    ------
    CampaignError, DataError
        With one sentence that names the cure; finished runs are kept.
    """
    for load in plan.loads:
        if plan.driver != OWN and (reason := why_not(plan.driver, load, plan.asking.protocol)):
            raise CampaignError(f"--driver: {reason}")
    programs = build()
    with alone(), _opened(plan, steering) as testbed:
        facts = {**machine_facts(), "steering": testbed.steering}
        note_machine(folder, ("id", "steering"), facts)
        bench = Bench(testbed, programs, Series(), plan.timing, machine=str(facts["id"]))
        work = _Work(plan, folder, bench, progress)
        try:
            with work.campaign.working():
                check_quiet(
                    folder,
                    bench.machine,
                    TestbedRecorder(testbed, programs),
                    work.campaign,
                    quick=True,
                    anyway=plan.anyway,
                )
                work.count()
                work.run_all()
        except RunError as error:
            raise CampaignError(str(error)) from error
    return ServerMeasured(work.campaign.summary, work.runs, work.counted)


@contextlib.contextmanager
def _opened(plan: ServerPlan, steering: Steering | None) -> Iterator[Testbed]:
    """Yield the places of server and clients; a running server stays where it is."""
    try:
        with open_testbed("loopback" if plan.pid else steering) as testbed:
            yield testbed_of(plan.pid, plan.address, testbed) if plan.pid else testbed
    except RunError as error:
        raise CampaignError(str(error)) from error


class _Work:
    """The runs on disk, and the work that adds to them."""

    def __init__(
        self,
        plan: ServerPlan,
        folder: Path,
        bench: Bench,
        progress: ProgressCallback,
    ) -> None:
        self._plan, self._folder, self._progress = plan, folder, progress
        self._bench, testbed = bench, bench.testbed
        self._command = plan.command_text()
        self._driver: Driver = TOOLS.get(plan.driver, own_load)
        self._tool = "dispatchsim" if plan.driver == OWN else plan.driver
        self._loads = {_label(load): load for load in plan.loads}
        self.campaign = Campaign(self._measure, progress, budget_s=plan.budget_s)
        if testbed.steering == "loopback":
            self.campaign.summary.notices.append(
                f"process {plan.pid} runs on any CPU: the CPU's busy share is unknown"
                if plan.pid
                else testbed.notice
            )
        self.campaign.drop_torn_lines(folder / RUNS_FILE, folder / CALLS_FILE)
        self.runs = read_observed(folder / RUNS_FILE).rows
        counted = read_observed(folder / CALLS_FILE).rows
        for run in (*self.runs, *counted):
            self._check_same(run)
            if run.noise is not None:
                self._bench.series.include(run.noise.spin_ns, run.noise.memory_ns)
        self.counted = counted[-1] if counted else None
        # Beside a process that runs on any CPU, a reference does not show the state of its CPU.
        has_own_cpu = testbed.steering == "namespaces"
        self._around = self._surroundings() if has_own_cpu else None

    def _surroundings(self) -> Surroundings:
        """Return the benches beside runs, with the costs of calls beside earlier runs."""
        bench = self._bench
        core = CalmCore(bench.testbed, bench.programs)
        core.recall(self.runs)
        return Surroundings(bench.testbed, bench.programs, core)

    def _check_same(self, run: ObservedRun) -> None:
        """Refuse to mix runs of different servers or different requests."""
        told = (
            ("server", run.server.command, self._command),
            ("protocol", run.server.protocol, self._plan.asking.protocol),
            ("request", run.load.asked or self._plan.asked, self._plan.asked),
        )
        for name, there, here in told:
            if there != here:
                raise CampaignError(
                    f"--output: {self._folder} holds runs of the {name} `{there}`, not of "
                    f"`{here}`: choose another folder"
                )

    def count(self) -> None:
        """Count the server's calls, unless they are counted already or the plan has no tracer."""
        plan = self._plan
        if self.counted is not None or plan.tracer == NO_TRACER:
            return
        self._progress(CampaignProgress("runs", "counting system calls", 0, 1, 0, _COUNTING_S))
        with self._server() as box:
            try:
                counted, failures = choose_and_count(
                    box, plan.asking, self._bench, asked=plan.tracer
                )
            except RunError as error:
                if not box.times():
                    raise
                self.campaign.summary.notices.append(str(error))
                return
        self.campaign.summary.notices += failures
        server = counted.run.server.model_copy(update={"command": self._command})
        self.counted = self._saying_what(counted.run.model_copy(update={"server": server}))
        append(self._folder / CALLS_FILE, self.counted)

    def run_all(self) -> None:
        """Run every load until it is known precisely enough, or has all its repeats."""
        path, plan = self._folder / RUNS_FILE, self._plan

        def rounds() -> Iterator[list[Task]]:
            for number in range(plan.repeats):
                if number >= REPEATS_LEAST and plan.within is not None:
                    self.campaign.say("runs", f"after round {number}", self._noise_text())
                yield [
                    Task(path, number, label)
                    for label, load in self._loads.items()
                    if number < len(self._accepted(load)) or self._is_unsure(load)
                ]

        self.campaign.done |= {
            Task(path, number, label)
            for label, load in self._loads.items()
            for number in range(len(self._accepted(load)))
        }
        is_over = not any(map(self._is_unsure, self._loads.values()))
        with contextlib.nullcontext() if is_over else self._server() as self._box:
            self.campaign.run(rounds(), "runs", n_rounds=plan.repeats)
        if plan.within is not None:
            self.campaign.summary.notices.append(self._noise_text())
        if found := self._scatter():
            self.campaign.summary.notices.append(
                f"replies/s of repeats scatter by {found.raw:.1%}, and by {found.relative:.1%} "
                "relative to the runs of our own server beside them"
            )

    def _scatter(self) -> Scatter | None:
        return scatter(
            [
                (run.throughput_per_s, statistics.mean(run.around[REFERENCE]))
                for run in self._accepted(load)
                if run.around and REFERENCE in run.around
            ]
            for load in self._loads.values()
            if load.load.loop == "closed"
        )

    def _is_unsure(self, load: Point) -> bool:
        """Return whether another run of *load* is needed."""
        accepted, within = self._accepted(load), self._plan.within
        if len(accepted) >= self._plan.repeats:
            return False
        return within is None or widest(accepted, _figures_of(accepted)) > within

    def _noise_text(self) -> str:
        repeats = [
            [run for run in self.runs if self._is_of(run, load)] for load in self._loads.values()
        ]
        assert self._plan.within is not None
        return noise_text(repeats, self._plan.within, _figures_of(self.runs), "loads")

    def _measure(self, task: Task) -> list[ObservedRun]:
        """Return another run of a load.

        Raises
        ------
        CampaignError
            If the server has ended, or sends no replies: further runs would fail, too.
        """
        assert self._box is not None
        known, load = self._known(), self._loads[task.label]
        seed = load.seed(sum(self._is_of(run, load) for run in self.runs))
        # If many connect at once, accepting them one by one makes most wait for longer.
        warming = point_at(load, accept_limit=known.accept_limit or 0)
        box = self._box

        def measured() -> ObservedRun:
            return observe(
                box, warming, self._plan.asking, self._bench, seed=seed, known=known,
                driver=self._driver,
            )  # fmt: skip

        try:
            if self._around is None:
                run = measured()
            else:
                run, around = self._around.around(measured)
                run = run.model_copy(update={"around": around})
        except RunError as error:
            run = self._failed(self._box, load, known, str(error))
            self.runs.append(run)
            append(task.path, run)
            self._check_alive(self._box, str(error))
            raise
        run = self._saying_what(run)
        self.runs.append(run)
        # A late wake-up of this process is no fault of the server: the campaign tries again.
        is_servers = run.reason != LATE and not (run.replied and self._box.times())
        if not run.accepted and is_servers:
            append(task.path, run)
            self._check_alive(self._box, run.reason)
            raise CampaignError(f"{run.reason} ({self._kept()})")
        return [run]

    def _saying_what(self, run: ObservedRun) -> ObservedRun:
        """Return *run* with the request that was made."""
        load = run.load.model_copy(update={"asked": self._plan.asked})
        return run.model_copy(update={"load": load})

    def _kept(self) -> str:
        return f"the run is kept in {self._folder}, and not accepted"

    def _check_alive(self, box: BlackBox, reason: str) -> None:
        if not box.times():
            ended = reason if "ended" in reason else f"{box.name} ended: {box.last_words()}"
            raise CampaignError(f"{ended} ({self._kept()})")

    def _known(self) -> ObservedServer:
        """Return the server's habits: those that the user states, and those recognised."""
        seen = self.counted.server if self.counted else ObservedServer()
        said = self._plan.said.model_dump(exclude_defaults=True)
        return seen.model_copy(update={**said, "command": self._command})

    def _failed(self, box: BlackBox, load: Point, known: ObservedServer, why: str) -> ObservedRun:
        """Return the record of a run without results."""
        content: dict[str, Any] = {
            "source": {"tool": self._tool, "date": now_text(), "machine": self._bench.machine},
            "server": {
                **known.model_dump(),
                "name": box.name,
                "protocol": self._plan.asking.protocol,
            },
            "load": {**self._load_fields(load), "asked": self._plan.asked},
            "window_ns": round(self._bench.timing.window_s * 1e9),
            "offered": 0,
            "replied": 0,
            "accepted": False,
            "reason": why,
        }
        return observed_run("run", content)

    @contextlib.contextmanager
    def _server(self) -> Iterator[BlackBox]:
        """Yield the server once it has replied; its keys are stored by then."""
        plan, testbed = self._plan, self._bench.testbed
        with contextlib.ExitStack() as stack:
            if plan.pid:
                box = stack.enter_context(attached(plan.pid, plan.port))
            else:
                if testbed.steering == "loopback" and plan.port in ports_here():
                    raise RunError(f"--port: another process listens on port {plan.port}")
                words = shlex.split(plan.command.replace("{address}", testbed.address))
                box = stack.enter_context(
                    started(
                        words,
                        plan.port,
                        testbed=testbed,
                        programs=self._bench.programs,
                        environment=plan.environment,
                    )
                )
            if plan.asking.protocol in KEYED:
                store_keys(box.name, box.port, plan.asking, plan.value_bytes, self._bench.testbed)
            greet(box, plan.asking, self._bench)
            yield box

    def _load_fields(self, load: Point) -> dict[str, Any]:
        """Return the load in the form of a run's record."""
        fields = load_fields(load)
        if self._plan.driver == "wrk" and load.load.requests == KEPT:
            fields["requests"] = 0
        return fields

    def _is_of(self, run: ObservedRun, load: Point) -> bool:
        here = self._load_fields(load)
        there = run.load.model_dump()
        names = ("loop", "rate_per_s", "users", "requests", "idle")
        return run.source.tool == self._tool and all(there[n] == here[n] for n in names)

    def _accepted(self, load: Point) -> list[ObservedRun]:
        return [run for run in self.runs if run.accepted and self._is_of(run, load)]


def _figures_of(runs: Sequence[ObservedRun]) -> list[Callable[[ObservedRun], float]]:
    """Return the metrics to know well: replies a second, and the server's CPU if known."""
    figures: list[Callable[[ObservedRun], float]] = [lambda run: run.throughput_per_s]
    if all(run.busy_share is not None for run in runs if run.accepted):
        figures.append(lambda run: run.busy_share or 0.0)
    return figures


def _label(load: Point) -> str:
    """Return the name of a load; it leaves out the mechanism."""
    text = load.label.removeprefix(load.server.mechanism).strip()
    return f"{text} requests 1" if load.load.requests == 1 else text
