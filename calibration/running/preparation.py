"""From a scenario to what an engine takes: mechanisms, trace, settings, costs.

Scenario ─┬─ seed ────► Trace          who comes, drawn before the run
          ├───────────► RunSettings    limits, link, lengths
          └─ profile ─► Costs          nanoseconds, central or drawn

A comparison is made of the mechanisms that can serve the scenario and have a price.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...models.catalogue import ALIASES, CATALOGUE, MECHANISMS, client_with, named
from ...models.simulate import Engine, InterruptedRun, simulate, simulate_stream
from ...scenario.backend import unused_limit
from ...scenario.clients import unused_pauses
from ...scenario.cpus import unused_cpus
from ...scenario.errors import ScenarioError, UserError, nearest
from ...scenario.quantities import DURATION
from ...scenario.run_settings import settings_of
from ...scenario.scenario import Scenario
from ...scenario.server import Server
from ...sim.engine.c.library import warn_if_no_engine, why_no_engine
from ...sim.engine.c.run import CannotCompileError, Interrupted
from ...sim.engine.reference import Extension
from ...sim.figures.outcome import Outcome
from ...sim.figures.summary import Summary, summarise
from ...sim.load.streams import generator
from ...sim.load.workload import Trace, TraceBlocks
from ...sim.state.costs import Costs
from ...sim.state.effects import effect_names, without
from ...sim.state.mechanism import Program, Trait
from ...sim.state.settings import RunSettings
from ...sim.state.units import SECOND_NS
from ..profiles.cost import CostSource
from .noise import BothSides, gaps_of, noise_warning

if TYPE_CHECKING:
    from ..profiles.cost_profile import Profile

_ROWS_PER_S = 20_000  # a first guess of how many connections a closed loop gets through
_REQUESTS_PER_S = 400_000  # a first guess of how many are due, where connections have several
_STREAMED_FROM = 1_000_000
"""Connections of a run from which on its records become histograms: below, every one is kept."""
_CLIENT_ASSUMED = (
    "a client's connect() is charged as accept(), and what the far end sends at the prices of what "
    "clients send: neither was measured"
)
_DATAGRAM_ASSUMED = (
    "a datagram of the flood is charged as the last packet of a handshake: the profile has no "
    "price of it (`dispatchsim measure flood`, then `calibrate`)"
)
_LOOK_NS = 6
_LOOK_ASSUMED = (
    f"a look at one connection, in search of those that are late, is charged {_LOOK_NS} ns unless "
    "the profile has its price: so long it takes each of 10,000 that are in no cache (EPYC)"
)
_CONNECTIONS_PER_S = {"fast": 1_000_000.0, "auto": 1_000_000.0, "reference": 50_000.0}
"""Simulated per second of wall time, of one request each, within a factor of 3."""


class Job(NamedTuple):
    """One run to simulate: everything that decides its outcome."""

    scenario: Scenario
    costs: Costs
    network_delay_ns: int
    kernel: str
    seed: int
    draw: int | None = None  # of the costs; None: the central ones
    gaps: BothSides = BothSides()


class Replication(NamedTuple):
    """The figures of one run, and the engine that made it: "fast" or "reference"."""

    seed: int
    draw: int | None
    summary: Summary
    engine: Engine


class StoppedJob(KeyboardInterrupt):
    """Ctrl-C during a run on the fast engine in this process.

    Attributes
    ----------
    job:
        What was being run.
    stopped_ns:
        How far it came, in simulated time.
    part:
        The figures of the window until then; None if it had not begun.
    """

    def __init__(self, job: Job, stopped_ns: int, part: Replication | None) -> None:
        super().__init__(f"stopped at {stopped_ns} ns of simulated time")
        self.job = job
        self.stopped_ns = stopped_ns
        self.part = part


def profile_of(scenario: Scenario) -> Profile:
    """Return the profile that the scenario names: shipped, a file, or the default one.

    Raises
    ------
    ScenarioError, ProfileError
        If there is none of that name, or its file breaks a rule.
    """
    from ..profiles.choosing import find_profile

    return find_profile(scenario.machine.profile)


def open_connections(scenario: Scenario) -> int:
    """Return about how many connections are open at once, by which costs are priced."""
    load = scenario.load
    return scenario.idle.connections + (load.users or 0) + (load.connections or 0)


def warnings_of(scenario: Scenario, profile: CostSource) -> list[str]:
    """Return what to know of the costs before one believes any figure of *scenario*."""
    server, machine = scenario.server, scenario.machine
    found = []
    for warning in (
        unused_cpus(scenario),
        unused_limit(scenario.backend),
        *unused_pauses(scenario.clients, scenario.load),
        _connects_in_window(scenario),
        profile.outside_range(open_connections(scenario)),
        profile.not_measured(server.mechanism, _costs_of_some(server)),
        noise_warning(machine.noise, profile),
    ):
        if warning:
            found.append(warning)
    if machine.role == "client":
        found.append(_CLIENT_ASSUMED)
    if scenario.flood.rate is not None and not _prices_datagrams(scenario, profile):
        found.append(_DATAGRAM_ASSUMED)
    if server.request_timeout > 0 and Trait.IN_CALLS not in MECHANISMS[server.mechanism].traits:
        found.append(_LOOK_ASSUMED)
    threads_block = (
        Trait.IN_CALLS in MECHANISMS[server.mechanism].traits
    )  # several of these were measured
    if machine.cpus > 1 or (server.workers > 1 and not threads_block):
        found.append(
            "capacity is an upper bound: what CPUs cost each other (locks, caches) is not modelled"
        )
    return found


def _connects_in_window(scenario: Scenario) -> str:
    """Return the sentence about users who come after the warm-up; empty where most came before."""
    load, run = scenario.load, scenario.run
    pause_ns = load.think_law.mean if load.trace is None and load.loop == "closed" else 0
    if pause_ns <= run.warm_up:
        return ""
    return (
        f"run.warm_up: must be some {DURATION.format(round(3 * pause_ns))} (three times "
        "load.think_time) for users to have connected before what is measured, got "
        f"{DURATION.format(run.warm_up)}"
    )


def _costs_of_some(server: Server) -> list[str]:
    """Return the costs that *server* has, and most servers on its mechanism have not."""
    if Trait.BY_SIGNALS not in MECHANISMS[server.mechanism].traits:
        return ["rebuild"] if server.array == "rebuilt" else []
    kept = ["rebuild", "keep_ns"] if server.recovery_array == "kept" else []
    return [*kept, "send_fd_ns", "receive_fd_ns"] if server.recovery_thread == "sibling" else kept


def _prices_datagrams(scenario: Scenario, profile: CostSource) -> bool:
    costs = profile.costs(scenario.server.mechanism, open_connections=open_connections(scenario))
    return costs.interrupt.datagram_ns > 0


def effort(scenario: Scenario) -> tuple[int, float] | None:
    """Return how many requests one run of *scenario* has, and about how many seconds it takes.

    None where it is the server's speed or a trace that decides.
    """
    load = scenario.load
    if load.rate is None:
        return None
    each = 1 if load.connections else scenario.requests_each
    n = round(round(load.rate * scenario.run.duration / SECOND_NS) * each)
    engine = scenario.run.engine
    if engine == "auto" and why_no_engine():
        engine = "reference"
    return n, n / _CONNECTIONS_PER_S[engine]


def with_engine(scenario: Scenario, engine: str | None) -> Scenario:
    """Return *scenario* with another engine; None: as it is."""
    return scenario if engine is None else scenario.with_values(run={"engine": str(engine)})


def job_of(scenario: Scenario, profile: CostSource, seed: int, *, draw: int | None = None) -> Job:
    """Return the run of *scenario* under *seed*, at central costs or at the draw of that number.

    The draw is the same for every scenario and mechanism (common random numbers).
    """
    costs = profile.costs(
        scenario.server.mechanism,
        open_connections=open_connections(scenario),
        rng=None if draw is None else generator(draw, "cost draw"),
        free_clients=scenario.machine.clients == "free",
    )
    costs = without(costs, effect_names(scenario.machine.without))
    if scenario.flood.rate is not None and costs.interrupt.datagram_ns == 0:
        costs = costs._replace(
            interrupt=costs.interrupt._replace(datagram_ns=costs.interrupt.ack_ns)
        )
    if scenario.server.request_timeout > 0 and costs.application.look_ns == 0:
        costs = costs._replace(application=costs.application._replace(look_ns=_LOOK_NS))
    delay_ns = scenario.network.delay
    return Job(
        scenario,
        costs,
        profile.network_delay_ns if delay_ns is None else delay_ns,
        profile.kernel,
        seed,
        draw,
        gaps_of(scenario.machine.noise, profile),
    )


def settings_of_job(job: Job) -> RunSettings:
    """Return the settings of *job*, the gaps of the host included."""
    settings = settings_at(job.scenario, job.network_delay_ns, job.seed, kernel=job.kernel)
    return settings._replace(server_gaps=job.gaps.server, client_gaps=job.gaps.client)


def settings_at(
    scenario: Scenario, network_delay_ns: int, seed: int = 1, *, kernel: str = ""
) -> RunSettings:
    """Return the settings of a run, on a testbed with what no scenario says."""
    settings = settings_of(scenario, network_delay_ns, seed, kernel=kernel)
    return scenario.on_its_testbed(settings)


def run_job(job: Job, *, extend: Extension | None = None) -> Replication:
    """Simulate one run; a process of its own may be where.

    Parameters
    ----------
    job:
        The run.
    extend:
        As for `simulate`. It is called again where a closed loop has to be run anew, with more
        connections.

    Raises
    ------
    StoppedJob
        On Ctrl-C in the fast engine, with the figures so far.
    CannotCompileError
        If the scenario asks for the fast engine and it cannot be had.
    """
    scenario = job.scenario
    settings = settings_of_job(job)
    drawn = scenario.load.trace is None and scenario.load.connections is None
    if drawn and _connections(scenario) > _STREAMED_FROM:
        streamed = _streamed(job, settings)
        if streamed is not None:
            return streamed
    rows, requests_max = first_rows(scenario), first_requests(scenario)
    while True:
        trace = trace_of(scenario, job.seed, rows)
        try:
            outcome, engine = _simulate(job, trace, settings, requests_max, extend)
        except InterruptedRun as stop:
            outcome, part = stop.outcome, None
            if outcome.duration_ns > settings.warm_up_ns and lasted(trace, outcome):
                part = Replication(job.seed, job.draw, summarise(outcome), "fast")
            raise StoppedJob(job, outcome.duration_ns, part) from None
        if lasted(trace, outcome):
            return Replication(job.seed, job.draw, summarise(outcome), engine)
        rows, requests_max = _more(trace, requests_max, outcome)


def record_job(job: Job) -> tuple[Trace, Outcome]:
    """Simulate one run and return its trace, and the record of every connection.

    Raises
    ------
    CannotCompileError
        If the scenario asks for the fast engine and it cannot be had.
    InterruptedRun
        On Ctrl-C in the fast engine.
    """
    scenario = job.scenario
    settings = settings_of_job(job)
    rows, requests_max = first_rows(scenario), first_requests(scenario)
    while True:
        trace = trace_of(scenario, job.seed, rows)
        outcome, _ = _simulate(job, trace, settings, requests_max)
        if lasted(trace, outcome):
            return trace, outcome
        rows, requests_max = _more(trace, requests_max, outcome)


def first_rows(scenario: Scenario) -> int:
    """Return how many connections users of a closed loop, or of kept ones, have at first."""
    load, seconds = scenario.load, scenario.run.duration / SECOND_NS
    if load.connections is not None:
        assert load.rate is not None
        again = 1.2 * load.rate * seconds / scenario.requests_each
        return load.connections + load.connections // 8 + 1_000 + round(again)
    guess = round(_ROWS_PER_S * seconds / scenario.requests_each)
    return max(4 * (load.users or 0), guess)


def first_requests(scenario: Scenario) -> int:
    """Return for how many requests a run has room at first."""
    load = scenario.load
    guess = round(_REQUESTS_PER_S * scenario.run.duration / SECOND_NS)
    return guess + 2 * (load.users or 0)


def _more(trace: Trace, requests_max: int, outcome: Outcome) -> tuple[int, int]:
    """Return how many connections and requests a run gets that ran out of one or the other.

    The first ones are equal.
    """
    if outcome.n_silent > 0:
        return len(trace), 2 * requests_max
    return 2 * len(trace), requests_max


def _connections(scenario: Scenario) -> float:
    """Return about how many connections a run makes, with all that may be tried again."""
    per_s = _ROWS_PER_S if scenario.load.rate is None else scenario.load.rate
    attempts: int = 1 + scenario.load.retries
    return per_s * scenario.run.duration / SECOND_NS * attempts


def _streamed(job: Job, settings: RunSettings) -> Replication | None:
    """Return the figures of a long run, whose records nobody keeps; None: not on this engine."""
    wanted = job.scenario.run.engine
    if wanted == "reference" or job.scenario.machine.role == "client":
        return None
    try:
        mechanism = job.scenario.server.mechanism
        summary = simulate_stream(mechanism, blocks_of(job.scenario, job.seed), job.costs, settings)
    except Interrupted as stop:
        raise StoppedJob(job, stop.world.now_ns, None) from None
    except CannotCompileError:
        if wanted == "fast":
            raise
        return None
    return Replication(job.seed, job.draw, summary, "fast")


def lasted(trace: Trace, outcome: Outcome) -> bool:
    """Return whether clients had connections and requests to make until the end."""
    if outcome.n_silent > 0:
        return False
    return trace.loop == "open" or outcome.intended_ns.size < len(trace)


def _simulate(
    job: Job,
    trace: Trace,
    settings: RunSettings,
    requests_max: int,
    extend: Extension | None = None,
) -> tuple[Outcome, Engine]:
    """Return the outcome of a run, and the engine that it was made by."""
    program, wanted = program_of(job.scenario), job.scenario.run.engine
    # A client's threads ask as they please: they have room for all.
    most = None if job.scenario.machine.role == "client" else requests_max

    def run(engine: Engine, extend: Extension | None = None) -> Outcome:
        return simulate(
            program, trace, job.costs, settings, engine=engine, extend=extend, requests_max=most
        )

    if wanted != "reference":
        try:
            return run("fast"), "fast"
        except CannotCompileError:
            if wanted == "fast":
                raise
            warn_if_no_engine()
    return run("reference", extend), "reference"


def program_of(scenario: Scenario) -> str | Program:
    """Return what an engine runs: the mechanism in its server, or the client with it."""
    name = scenario.server.mechanism
    return client_with(name) if scenario.machine.role == "client" else name


def trace_of(scenario: Scenario, seed: int, rows: int) -> Trace:
    """Return the connections of a run; in a closed loop at least *rows* of them.

    Raises
    ------
    ScenarioError, TraceError, OSError
        If the scenario's trace file cannot be read or is of the other loop.
    """
    load = scenario.load
    if load.trace is not None:
        return _from_file(load.trace, load.loop, rows)
    return scenario.trace(seed, scenario.run.duration / SECOND_NS, rows)


def blocks_of(scenario: Scenario, seed: int) -> TraceBlocks:
    """Return the connections of a run, to be drawn as they are needed: no trace from a file."""
    return scenario.workload.blocks(seed, scenario.run.duration / SECOND_NS)


def _from_file(path: str, loop: str, rows: int) -> Trace:
    trace = Trace.read(path)
    if trace.loop != loop:
        raise ScenarioError(f'load.loop: must be "{trace.loop}" as in {path}, got "{loop}"')
    if loop == "open" or len(trace) >= rows:
        return trace
    # Users begin again with the first row, as in the load generator.
    names = ("at_ns", "requests", "request_bytes", "reply_bytes", "think_ns")
    times = -(-rows // len(trace))
    return Trace(trace.loop, trace.users, *(np.tile(getattr(trace, n), times) for n in names))


def rule_of(error: ScenarioError) -> str:
    """Return what *error* says of keys and values, without the file: that is not at fault."""
    return "; ".join(each.split(": ", 1)[-1] for each in error.mistakes)


def check_mechanisms(names: Sequence[str], key: str = "mechanisms") -> list[str]:
    """Return the mechanisms that people call *names*; *key* is what the user gave them as.

    Raises
    ------
    UserError
        If one is unknown or named twice, or there is none.
    """
    found = [named(name) for name in names]
    for name in found:
        if name not in CATALOGUE:
            hint = nearest(name, (*CATALOGUE, *ALIASES))
            raise UserError(f'{key}: must be of {", ".join(CATALOGUE)}{hint}, got "{name}"')
    if not found or len(set(found)) != len(found):
        raise UserError(f"{key}: must be one or more, each once, got {', '.join(names)}")
    return found


def comparable(scenario: Scenario, profile: CostSource) -> tuple[list[str], dict[str, list[str]]]:
    """Return the mechanisms to compare, the scenario's own first, and those left out by reason."""
    own = scenario.server.mechanism
    left_out: dict[str, list[str]] = {}
    names = [own]
    for name in CATALOGUE:
        if name == own:
            continue
        why = _hindrance(scenario, profile, name)
        if why is None:
            names.append(name)
        else:
            left_out.setdefault(why, []).append(name)
    return names, left_out


def _hindrance(scenario: Scenario, profile: CostSource, name: str) -> str | None:
    """Return why *name* cannot serve *scenario* at the prices of *profile*, None if it can."""
    try:
        profile.costs(name, open_connections=scenario.idle.connections)
    except ValueError:
        return f"profile {profile.name} has no prices of them"
    broken = scenario.server.broken_rule(name)
    if broken is not None:
        return f"{broken.key} is {broken.value}: not for those {broken.others}"
    try:
        scenario.with_values(server={"mechanism": name})
    except ScenarioError as error:
        return rule_of(error)
    if profile.not_measured(name):
        return f"profile {profile.name} has only lent prices of them; --mechanisms takes them"
    return None
