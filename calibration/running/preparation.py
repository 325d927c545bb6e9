"""From a scenario to the input of an engine: mechanisms, trace, settings, costs.

Scenario ─┬─ seed ────► Trace          arrivals, generated before the run
          ├───────────► RunSettings    limits, link, lengths
          └─ profile ─► Costs          nanoseconds, central or a cost sample

A comparison includes the mechanisms that can serve the scenario and have costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...models.catalogue import ALIASES, CATALOGUE, MECHANISMS, client_with, named
from ...models.simulate import Engine, InterruptedRun, simulate, simulate_stream
from ...scenario.backend import unused_limit
from ...scenario.clients import unused_pauses
from ...scenario.cpus import uneven_loops, unused_cpus
from ...scenario.errors import ScenarioError, UserError, one_of
from ...scenario.quantities import DURATION
from ...scenario.run_settings import settings_of
from ...scenario.scenario import Scenario
from ...scenario.server import Server
from ...sim.engine.c.library import warn_if_no_engine, why_no_engine
from ...sim.engine.c.run import CannotCompileError, Interrupted
from ...sim.engine.reference import Extension
from ...sim.figures.outcome import Outcome
from ...sim.figures.summary import Summary, summarise
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

_ROWS_PER_S = 20_000  # a first guess of a closed loop's connections/s
_REQUESTS_PER_S = 400_000  # a first guess, if connections have several requests
_STREAMED_FROM = 1_000_000
"""Runs with this many connections or more keep histograms; smaller runs keep every record."""
_CLIENT_ASSUMED = (
    "connect() was not measured on a client: it has the cost of accept(). Packets that arrive at "
    "a client were not measured either: they have the costs of packets that arrive at a server"
)
_DATAGRAM_ASSUMED = (
    "the profile has no cost for datagrams; the cost of the last packet of a handshake is used "
    "(to measure: `dispatchsim measure flood`, then `dispatchsim calibrate machine`)"
)
_LOOK_NS = 6
_LOOK_ASSUMED = (
    f"the profile has no cost for a time-out scan: {_LOOK_NS} ns per connection is used, as "
    "measured on an EPYC (10,000 connections, not in cache)"
)
_CONNECTIONS_PER_S = {"fast": 1_000_000.0, "auto": 1_000_000.0, "reference": 50_000.0}
"""Simulated connections of one request per second of wall time, within a factor of 3."""


class Job(NamedTuple):
    """One run to simulate: everything that determines its outcome."""

    scenario: Scenario
    costs: Costs
    network_delay_ns: int
    kernel: str
    seed: int
    draw: int | None = None  # number of the cost sample; None: central costs
    gaps: BothSides = BothSides()


class Replication(NamedTuple):
    """The metrics of one run, and its engine: "fast" or "reference"."""

    seed: int
    draw: int | None
    summary: Summary
    engine: Engine


class StoppedJob(KeyboardInterrupt):
    """Ctrl-C during a run on the fast engine in this process.

    Attributes
    ----------
    job:
        The interrupted run.
    stopped_ns:
        Simulated time at the interruption.
    part:
        Metrics of the window until then; None if it had not begun.
    """

    def __init__(self, job: Job, stopped_ns: int, part: Replication | None) -> None:
        super().__init__(f"stopped at {stopped_ns} ns of simulated time")
        self.job = job
        self.stopped_ns = stopped_ns
        self.part = part


def profile_of(scenario: Scenario) -> Profile:
    """Return the scenario's profile: shipped, a file, or the default one.

    Raises
    ------
    ScenarioError, ProfileError
        If there is no such profile, or its file breaks a rule.
    """
    from ..profiles.choosing import find_profile

    return find_profile(scenario.machine.profile, "machine.profile")


def open_connections(scenario: Scenario) -> int:
    """Return the approximate number of open connections, on which costs depend."""
    load = scenario.load
    return scenario.idle.connections + (load.users or 0) + (load.connections or 0)


def warnings_of(scenario: Scenario, profile: CostSource) -> list[str]:
    """Return warnings about the costs that limit the trust in metrics of *scenario*."""
    server, machine = scenario.server, scenario.machine
    found = []
    for warning in (
        unused_cpus(scenario),
        uneven_loops(scenario),
        unused_limit(scenario.backend),
        *unused_pauses(scenario.clients, scenario.load),
        _connects_in_window(scenario),
        _never_ends(scenario),
        profile.outside_range(open_connections(scenario)),
        profile.not_measured(server.mechanism, _costs_of_some(server)),
        noise_warning(machine.noise, profile),
    ):
        if warning:
            found.append(warning)
    if machine.role == "client":
        found.append(_CLIENT_ASSUMED)
    if scenario.flood.rate is not None and _costs(scenario, profile).interrupt.datagram_ns <= 0:
        found.append(_DATAGRAM_ASSUMED)
    threads_block = Trait.IN_CALLS in MECHANISMS[server.mechanism].traits
    scans = server.request_timeout > 0 and not threads_block
    if scans and _costs(scenario, profile).application.look_ns == 0:
        found.append(_LOOK_ASSUMED)
    # Several blocking threads were measured.
    if machine.cpus > 1 or (server.workers > 1 and not threads_block):
        found.append(
            "capacity may be lower: contention between CPUs (locks, caches) is not modelled"
        )
    return found


def _connects_in_window(scenario: Scenario) -> str:
    """Return a warning if many users connect after the warm-up, else an empty string."""
    load, run = scenario.load, scenario.run
    pause_ns = load.think_law.mean if load.trace is None and load.loop == "closed" else 0
    if pause_ns <= run.warm_up:
        return ""
    return (
        f"run.warm_up: must be about {DURATION.format(round(3 * pause_ns))} (three times "
        "load.think_time), so that users connect before the measured window, got "
        f"{DURATION.format(run.warm_up)}"
    )


def _never_ends(scenario: Scenario) -> str:
    """Return a warning if kept connections of equal length hardly end in the run, else empty."""
    load, run = scenario.load, scenario.run
    is_limited = "requests" in load.model_fields_set and load.requests_spread == "constant"
    if not (is_limited and load.connections and load.rate) or scenario.clients:
        return ""
    each = load.rate * run.duration / SECOND_NS / load.connections
    if each >= load.requests:
        return ""
    return (
        f"load.requests: a connection has some {each:.2g} requests in this run and ends after "
        f"{load.requests}, so new connections and their cost are missing; "
        'load.requests_spread = "geometric" has connections end at all times'
    )


def _costs_of_some(server: Server) -> list[str]:
    """Return the costs of *server* that most servers with its mechanism do not have."""
    if Trait.BY_SIGNALS not in MECHANISMS[server.mechanism].traits:
        return ["rebuild"] if server.array == "rebuilt" else []
    kept = ["rebuild", "keep_ns"] if server.recovery_array == "kept" else []
    return [*kept, "send_fd_ns", "receive_fd_ns"] if server.recovery_thread == "sibling" else kept


def _costs(scenario: Scenario, profile: CostSource) -> Costs:
    return profile.costs(scenario.server.mechanism, open_connections=open_connections(scenario))


def effort(scenario: Scenario) -> tuple[int, float] | None:
    """Return the number of requests in a run of *scenario*, and its approximate time in seconds.

    None if the number depends on the server's speed or a trace.
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
    """Return *scenario* with another engine; None: unchanged."""
    return scenario if engine is None else scenario.with_values(run={"engine": str(engine)})


def job_of(scenario: Scenario, profile: CostSource, seed: int, *, draw: int | None = None) -> Job:
    """Return the run of *scenario* with *seed*, at central costs or at a cost sample.

    *draw* is the number of the cost sample. A cost sample is the same for all scenarios and
    mechanisms (common random numbers).
    """
    costs = profile.costs(
        scenario.server.mechanism,
        open_connections=open_connections(scenario),
        sample=draw,
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
    """Return the settings of a run, with a testbed's additional settings."""
    settings = settings_of(scenario, network_delay_ns, seed, kernel=kernel)
    return scenario.on_its_testbed(settings)


def run_job(job: Job, *, extend: Extension | None = None) -> Replication:
    """Simulate one run, possibly in another process.

    Parameters
    ----------
    job:
        The run.
    extend:
        As in `simulate`. It is called again if a closed loop must be repeated with more
        connections.

    Raises
    ------
    StoppedJob
        On Ctrl-C in the fast engine, with the metrics so far.
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
    """Return the initial number of connections in a closed loop or with kept connections."""
    load, seconds = scenario.load, scenario.run.duration / SECOND_NS
    if load.connections is not None:
        assert load.rate is not None
        again = 1.2 * load.rate * seconds / scenario.requests_each
        return load.connections + load.connections // 8 + 1_000 + round(again)
    guess = round(_ROWS_PER_S * seconds / scenario.requests_each)
    return max(4 * (load.users or 0), guess)


def first_requests(scenario: Scenario) -> int:
    """Return the initial room for requests in a run."""
    load = scenario.load
    guess = round(_REQUESTS_PER_S * scenario.run.duration / SECOND_NS)
    return guess + 2 * (load.users or 0)


def _more(trace: Trace, requests_max: int, outcome: Outcome) -> tuple[int, int]:
    """Return more connections or requests for a run that ran out of them.

    The first ones stay equal.
    """
    if outcome.n_silent > 0:
        return len(trace), 2 * requests_max
    return 2 * len(trace), requests_max


def _connections(scenario: Scenario) -> float:
    """Return the approximate number of connections of a run, retries included."""
    per_s = _ROWS_PER_S if scenario.load.rate is None else scenario.load.rate
    attempts: int = 1 + scenario.load.retries
    return per_s * scenario.run.duration / SECOND_NS * attempts


def _streamed(job: Job, settings: RunSettings) -> Replication | None:
    """Return the metrics of a long run without keeping records; None: not on this engine."""
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
    """Return whether clients had enough connections and requests until the end."""
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
    """Return the outcome of a run, and its engine."""
    program, wanted = program_of(job.scenario), job.scenario.run.engine
    # A client's threads send at their own pace, so they have room for all requests.
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
    """Return the program of an engine: a server with the mechanism, or a client with it."""
    name = scenario.server.mechanism
    return client_with(name) if scenario.machine.role == "client" else name


def trace_of(scenario: Scenario, seed: int, rows: int) -> Trace:
    """Return the connections of a run; in a closed loop at least *rows* of them.

    Raises
    ------
    ScenarioError, TraceError, OSError
        If the scenario's trace file cannot be read or has the other kind of loop.
    """
    load = scenario.load
    if load.trace is not None:
        return _from_file(load.trace, load.loop, rows)
    return scenario.trace(seed, scenario.run.duration / SECOND_NS, rows)


def blocks_of(scenario: Scenario, seed: int) -> TraceBlocks:
    """Return the connections of a run, generated as needed; not from a trace file."""
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
    """Return the keys and values of *error* without the file, which is not at fault."""
    return "; ".join(error.rules)


def check_mechanisms(names: Sequence[str], key: str = "mechanisms") -> list[str]:
    """Return the mechanisms with the given *names* or aliases; *key* names the user's option.

    Raises
    ------
    UserError
        If a name is unknown, empty or repeated, or there is none.
    """
    if len(names) > 1 and "" in names:
        raise UserError(f'{key}: must have a name between commas, got "{",".join(names)}"')
    found = [named(name) for name in names]
    for name in found:
        if name not in CATALOGUE:
            raise UserError(f'{key}: {one_of(name, CATALOGUE, ALIASES)}, got "{name}"')
    if not found or len(set(found)) != len(found):
        raise UserError(f"{key}: must be one or more, each once, got {', '.join(names)}")
    return found


def comparable(scenario: Scenario, profile: CostSource) -> tuple[list[str], dict[str, list[str]]]:
    """Return the mechanisms to compare, the scenario's first, and omitted ones by reason."""
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
    """Return why *name* cannot serve *scenario* with *profile*, None if it can."""
    try:
        profile.costs(name, open_connections=scenario.idle.connections)
    except ValueError:
        return f"profile {profile.name} has no costs for them"
    broken = scenario.server.broken_rule(name)
    if broken is not None:
        return f"{broken.key} is {broken.value}: not for those {broken.others}"
    try:
        scenario.with_values(server={"mechanism": name})
    except ScenarioError as error:
        return rule_of(error)
    if profile.not_measured(name):
        return (
            f"profile {profile.name} has costs for them that were measured on another machine; "
            "--mechanisms includes them"
        )
    return None
