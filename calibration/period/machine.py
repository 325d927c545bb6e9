"""A machine that can no longer be measured: proportions of ours, scaled to what papers state.

    our counted machine ─► proportions ─► varied by +-25% in each cost sample
    row of a paper ──────► Step ────────► one factor for the costs that it is about, by simulation

The statements of a paper hold in every cost sample, within the precision of its words; the split of
a cost into others is free. So a claim that holds in all cost samples does not depend on a lucky
constant. Machines and rows stand in machines.toml.
"""

from __future__ import annotations

import fnmatch
import functools
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter

from ...models.simulate import simulate
from ...sim.figures.summary import Summary, summarise
from ...sim.load.workload import Load
from ...sim.state.client_settings import ClientSettings, Closing, NetworkSettings
from ...sim.state.settings import RunSettings, having
from ...sim.state.units import SECOND_NS
from ..profiles.cost import CONNECTION, REQUEST, Cost
from ..profiles.cost_profile import Profile, period_folder, shipped_profiles

SEED = 1
_ROWS_PER_S = 30_000
_AS_BY_DEFAULT: dict[str, bool | int] = {}


class Operation(NamedTuple):
    """A server and its clients.

    Attributes
    ----------
    mechanism:
        How the server learns of readiness.
    load:
        The load; clients close their connections by a FIN.
    server, idle, link_bits_per_s:
        The server's settings by name, silent connections, and the link each way (0: no bound).
    warm_up_ns, window_ns:
        The length of the measured window, and of the time before it.
    """

    mechanism: str
    load: Load
    server: Mapping[str, bool | int] = _AS_BY_DEFAULT
    idle: int = 0
    link_bits_per_s: int = 100_000_000
    window_ns: int = SECOND_NS
    warm_up_ns: int = SECOND_NS

    def simulated(self, profile: Profile) -> Summary:
        """Return the run's summary at the costs and the delay of *profile*."""
        costs = profile.costs(self.mechanism, open_connections=self.idle, free_clients=True)
        duration_ns = self.warm_up_ns + self.window_ns
        settings = RunSettings(
            network=NetworkSettings(
                delay_ns=profile.network_delay_ns,
                up_bits_per_s=self.link_bits_per_s,
                down_bits_per_s=self.link_bits_per_s,
            ),
            client=ClientSettings(idle=self.idle, closing=int(Closing.FIN)),
            duration_ns=duration_ns,
            warm_up_ns=self.warm_up_ns,
            sample_every_ns=0,
        )
        settings = having(settings, **self.server)
        seconds = duration_ns / SECOND_NS
        rows = round(_ROWS_PER_S * seconds / self.load.requests) + 4 * self.load.users
        trace = self.load.trace(SEED, seconds, rows)
        return summarise(simulate(self.mechanism, trace, costs, settings))


BASE = "counted-linux-6.1-unmerged"
"""The machine whose proportions are used: it counts instructions, so it has no neighbours, its
packets come one by one, and it has costs for every mechanism of the literature."""
FREE = 0.25
"""The relative range of a cost around its proportion, where nothing better is known."""
LISTING = ("epoll_edge.add_ns", "epoll_level.add_ns")
"""Listing costs the difference: epoll_edge also watches for writing, so it is ready at once."""
_SHARED = ("interrupt", "call", "application", "client")
_TOLERANCE = 0.002
_TRIES_MAX = 40
_MISS_MAX = 0.05  # the largest error of a metric that jumps, where no factor meets the target
_FLAT = 0.05  # the least slope in logarithms for a step by secants
_FACTOR_MAX = 512.0

Draw = Callable[[str], float]
"""From the name of a free constant to a number from -1 to 1."""


def central(name: str) -> float:
    """Return the middle value, for every free constant."""
    return 0.0


class Guess(NamedTuple):
    """A cost that our machine does not have, as a share of a cost that it has.

    Attributes
    ----------
    cost, of:
        The new cost, and the known cost.
    low, high:
        The ends of its range.
    why:
        The source of the range.
    """

    cost: str
    of: str
    low: float
    high: float
    why: str


class Part(NamedTuple):
    """Part of the run time of a saturated server: shares from rows, and assumptions.

    `plus` and `minus` name the machine's `assumes` that are added and subtracted.
    """

    shares: tuple[float, ...] = ()
    plus: tuple[str, ...] = ()
    minus: tuple[str, ...] = ()

    def at(self, assumed: Mapping[str, float]) -> float:
        """Return the part, given what is *assumed*."""
        part = sum(self.shares) + sum(assumed[name] for name in self.plus)
        for name in self.minus:
            part -= assumed[name]
        return part


class Step(NamedTuple):
    """One row of a paper, and the costs that are scaled together until it holds.

    Attributes
    ----------
    row:
        Its identifier among the paper's claims, or its subject.
    costs:
        Patterns of the costs, as in "interrupt.*".
    operation:
        The server and clients for which it holds.
    figure, activities:
        The metric that the paper states: of the run's summary, or the share of the CPU's busy time
        in *activities*, or the ns of the server's CPU in them for each reply.
    target, band:
        The metric's value, or its part of the machine's run time, and its relative tolerance by
        the words of the paper.
    rises:
        Whether the metric rises with the costs.
    """

    row: str
    costs: tuple[str, ...]
    operation: Operation
    figure: Literal["throughput_per_s", "cpu_busy", "share", "ns_per_reply"]
    target: float | Part
    activities: tuple[str, ...] = ()
    band: float = 0.0
    rises: bool = True

    def simulated(self, profile: Profile) -> float:
        """Return the metric at the costs and the delay of *profile*."""
        summary = self.operation.simulated(profile)
        if not self.activities:
            return float(getattr(summary, self.figure))
        spent_ns = sum(summary.cpu.by_activity_ns[name] for name in self.activities)
        whole = summary.cpu.busy_ns if self.figure == "share" else summary.calls["replies"]
        return spent_ns / max(1, whole)


class PeriodMachine(NamedTuple):
    """A profile's recipe.

    Attributes
    ----------
    name, about, kernel:
        Of the profile, and its facts.
    mechanisms:
        The mechanisms that the papers ran on it; it has no costs for others.
    steps:
        The statements of papers, in the order of the solution.
    factor:
        The factor of all costs before the steps; low and high where no step scales all costs.
    delay_ns:
        The delay of the link, one way; low and high.
    guesses:
        Costs that were different then, or were not measured.
    absent:
        Patterns of costs that this kernel does not have.
    assumes:
        Quantities that the rows leave open: low and high of each, drawn evenly.
    alike:
        Names of code that several mechanisms call, each with patterns of its costs: these vary
        together.
    lists:
        Patterns of epoll changes that find the descriptor ready and list it at once. The base was
        measured without this; it costs LISTING more.
    full_per_s, served:
        The replies a second of the run whose time a target is part of, and the name in `assumes`
        of the share that it served.
    """

    name: str
    about: str
    kernel: str
    mechanisms: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    factor: tuple[float, float] = (1.0, 1.0)
    delay_ns: tuple[float, float] = (50_000.0, 50_000.0)
    absent: tuple[str, ...] = ()
    guesses: tuple[Guess, ...] = ()
    assumes: Mapping[str, tuple[float, float]] = {}
    alike: Mapping[str, tuple[str, ...]] = {}
    lists: tuple[str, ...] = ()
    full_per_s: float = 0.0
    served: str = ""

    @property
    def constants(self) -> tuple[str, ...]:
        """The names of all its free constants."""
        names = (
            *(self._constant_of(key) for key in _proportions(self)),
            *(guess.cost for guess in self.guesses),
            *(f"row {step.row}" for step in self.steps if step.band),
            *self.assumes,
            "all costs",
            "network.delay_ns",
        )
        return tuple(dict.fromkeys(names))

    def _constant_of(self, key: str) -> str:
        """Return the name of the constant by which the cost *key* varies."""
        return next((name for name, costs in self.alike.items() if _matches(key, costs)), key)

    def profile(self, draw: Draw = central) -> Profile:
        """Return the profile at *draw*.

        Raises
        ------
        ValueError
            If a row cannot be satisfied.
        """
        overall = _between(self.factor, draw("all costs"))
        costs = {
            key: _scaled(
                cost, overall * (1 + FREE * draw(self._constant_of(key))), f"{BASE} x {overall:.3g}"
            )
            for key, cost in _proportions(self).items()
        }
        delay_ns = _between(self.delay_ns, draw("network.delay_ns"))
        for guess in self.guesses:
            share = _between((guess.low, guess.high), draw(guess.cost))
            of = costs[guess.of]
            costs[guess.cost] = _scaled(of, share, f"{guess.of} x {share:.3g}: {guess.why}")
        costs["network.delay_ns"] = _flat(delay_ns, self.delay_ns, "assumed: a local network")
        for step in self.steps:
            factor = self._solved(step, self.target_of(step, draw), costs)
            costs |= {
                key: _scaled(cost, factor, f"{cost.source} x {factor:.3g} ({step.row})")
                for key, cost in costs.items()
                if _matches(key, step.costs)
            }
        return self._with(costs)

    def target_of(self, step: Step, draw: Draw) -> float:
        """Return the target of *step* at *draw*."""
        assumed = {name: _between(ends, draw(name)) for name, ends in self.assumes.items()}
        within = step.band * draw(f"row {step.row}") if step.band else 0.0
        target = step.target
        if isinstance(target, Part):
            target = target.at(assumed) / assumed[self.served] * SECOND_NS / self.full_per_s
        return target * (1 + within)

    def _solved(self, step: Step, target: float, costs: Mapping[str, Cost]) -> float:
        """Return the factor for the costs of *step* at which its metric is *target*."""

        def figure(factor: float) -> float:
            tried = {
                key: _scaled(cost, factor, cost.source) if _matches(key, step.costs) else cost
                for key, cost in costs.items()
            }
            return step.simulated(self._with(tried))

        return solve(figure, target, rises=step.rises, what=f"{self.name}: {step.row}")

    def _with(self, costs: Mapping[str, Cost]) -> Profile:
        tables: dict[str, dict[str, Cost]] = {}
        for key, cost in costs.items():
            table, name = key.split(".")
            tables.setdefault(table, {})[name] = _with_range(cost)
        base = _base()
        return base.model_copy(
            update={
                "name": self.name,
                "machine": {
                    "id": self.name,
                    "about": self.about,
                    "kernel": self.kernel,
                    "reconstructed": True,
                    "command": "dispatchsim lab period-profiles",
                },
                "range": base.range.model_copy(update={"open_connections_max": 20_000}),
                "cost": tables,
            }
        )


def solve(figure: Callable[[float], float], target: float, *, rises: bool, what: str) -> float:
    """Return the factor at which *figure* is *target*: secants in logarithms, within a bracket.

    Raises
    ------
    ValueError
        If no factor from 1/512 to 512 reaches the target.
    """
    low, high = 1 / _FACTOR_MAX, _FACTOR_MAX
    slope = 1.0 if rises else -1.0
    tried, before, found = 1.0, 0.0, 0.0
    for n in range(_TRIES_MAX):
        found_before, found = found, figure(tried)
        if abs(found / target - 1) <= _TOLERANCE:
            return tried
        if (found < target) == rises:
            low = tried
        else:
            high = tried
        if n > 0 and found != found_before and min(found, found_before) > 0:
            slope = math.log(found / found_before) / math.log(tried / before)
        before = tried
        steep = abs(slope) > _FLAT and (slope > 0) == rises and found > 0
        tried *= (target / found) ** (1 / slope) if steep else math.inf
        if not low < tried < high or n % 4 == 3:  # now and then bisect, as secants may creep
            tried = math.sqrt(low * high)
    if abs(found / target - 1) > _MISS_MAX:
        raise ValueError(f"{what} must be {target:g}, got at best {found:g}")
    return before


def _proportions(machine: PeriodMachine) -> dict[str, Cost]:
    """Return the costs of the base machine, without those fitted to its own runs."""
    found = {}
    ready, unready = (_base().cost[table][name] for table, name in (k.split(".") for k in LISTING))
    listing_ns = ready.value[0] - unready.value[0]
    for table, costs in _base().cost.items():
        for name, cost in costs.items():
            key = f"{table}.{name}"
            fitted = name in (REQUEST, CONNECTION) and table != "application"
            if table not in (*_SHARED, *machine.mechanisms) or fitted:
                continue
            if not _matches(key, machine.absent):
                found[key] = _dearer(cost, listing_ns) if _matches(key, machine.lists) else cost
    return found


def _dearer(cost: Cost, ns: float) -> Cost:
    """Return *cost* increased by *ns*."""
    value = tuple(each + ns for each in cost.value)
    return cost.model_copy(update={"value": value, "low": value, "high": value})


@functools.cache  # a solution takes it hundreds of times
def _base() -> Profile:
    return Profile.read(shipped_profiles()[BASE])


def _matches(key: str, patterns: tuple[str, ...]) -> bool:
    """Return whether *key* is one of *patterns*; the link is not the machine's."""
    return not key.startswith("network.") and any(
        fnmatch.fnmatchcase(key, pattern) for pattern in patterns
    )


def _between(ends: tuple[float, float], drawn: float) -> float:
    low, high = ends
    return low + (high - low) * (1 + drawn) / 2


def _scaled(cost: Cost, factor: float, source: str) -> Cost:
    value = tuple(round(ns * factor, 1) for ns in cost.value)
    return cost.model_copy(
        update={"value": value, "low": value, "high": value, "residual": 0.0, "source": source}
    )


def _flat(value: float, ends: tuple[float, float], source: str) -> Cost:
    return Cost(
        at=(0,), value=(value,), low=(ends[0],), high=(ends[1],), residual=0.0, source=source
    )


def _with_range(cost: Cost) -> Cost:
    """Return *cost* with its free range, unless it has a range."""
    if cost.low != cost.value:
        return cost
    return cost.model_copy(
        update={
            "low": tuple(round(ns * (1 - FREE), 1) for ns in cost.value),
            "high": tuple(round(ns * (1 + FREE), 1) for ns in cost.value),
        }
    )


def read_machines(path: Path) -> dict[str, PeriodMachine]:
    """Return the machines of *path* by name, with steps in the order of the solution."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    for machine in content.values():
        operations = machine.pop("operations", {})
        steps = {
            name: step | {"operation": operations[step["operation"]]}
            for name, step in machine.pop("steps", {}).items()
        }
        machine["steps"] = [steps[name] for name in machine.pop("order", steps)]
    machines = TypeAdapter(dict[str, PeriodMachine]).validate_python(content)
    return {machine.name: machine for machine in machines.values()}


MACHINES = read_machines(Path(__file__).with_name("machines.toml"))
"""The machines of the papers by name."""


def write_profiles() -> Iterator[Path]:
    """Write the profile of every machine anew, each as a whole; yield the paths."""
    for name, machine in MACHINES.items():
        path = period_folder() / f"{name}.toml"
        path.parent.mkdir(exist_ok=True)
        machine.profile().write(path)
        yield path
