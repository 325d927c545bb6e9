"""Record a window of a scenario's run, to view as tables, a picture, a trace or a page.

    Scenario ─► reference engine ─► Recorder ─► Recording ─┬─ frame, queues    pandas
                until the window ends                      ├─ timeline()       matplotlib
                                                           ├─ write_trace()    Perfetto
                                                           └─ steps()          a page

The run is the first of those that `run` makes of the scenario, or one with another seed, at central
costs. It is simulated on the reference engine, which can be observed, and ends with the window.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..calibration.profiles.cost import CostSource
from ..calibration.running.preparation import (
    first_rows,
    job_of,
    lasted,
    profile_of,
    program_of,
    trace_of,
)
from ..models.catalogue import CATALOGUE
from ..models.simulate import simulate
from ..scenario.errors import UserError
from ..scenario.quantities import DURATION, QuantityError, parse_duration_ns
from ..scenario.run_settings import settings_of
from ..scenario.scenario import Scenario, check_scenario
from ..sim.figures.recording import Recorder
from ..sim.state.mechanism import Trait
from ..sim.state.world import World
from .recorded import STATES, TOLD, Recorded, requests_of, state_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from simpy import Environment

    from .step_through import StepThrough

LIMIT = 100_000
"""Default limit of entries in a recording: some 20 MB."""


class Recording(Recorded):
    """A recorded run, with its picture, its page and its trace."""

    def write_trace(self, path: Path | str) -> None:
        """Write a trace for Perfetto and chrome://tracing to *path*, whole or not at all.

        Raises
        ------
        UserError
            If it would be too large for these viewers.
        """
        from .chrome_trace import write_trace

        write_trace(self, Path(path))

    def timeline(self) -> Figure:
        """Return the picture: a lane for each CPU, and the lengths of queues below."""
        from .timeline import timeline_figure

        return timeline_figure(self)

    def steps(self) -> StepThrough:
        """Return the page that shows the beginning of the recording, step by step."""
        from .step_through import step_through

        return step_through(self)

    def __repr__(self) -> str:
        """Return what it is in short: its spans would fill a screen."""
        return (
            f"<Recording of {self.scenario.server.mechanism}, {len(self.spans)} spans from "
            f"{DURATION.format(self.begin_ns)} to {DURATION.format(self.end_ns)}: .frame, .queues, "
            ".timeline()>"
        )


def record(
    scenario: Scenario,
    profile: CostSource | None = None,
    seed: int | None = None,
    *,
    begin: str | int | None = None,
    length: str | int = "2 ms",
    limit: int = LIMIT,
) -> Recording:
    """Return the recording of a run of *scenario* in a window of time.

    Parameters
    ----------
    scenario:
        The scenario to run.
    profile:
        The costs; None: the profile that the scenario names.
    seed:
        Seed of the run; None: the scenario's first.
    begin, length:
        The window: durations with their unit ("500 ms"), or whole ns. By default it begins at the
        end of the warm-up.
    limit:
        Number of entries at which the recording ends: spans, occurrences and changes of queues.

    Raises
    ------
    UserError
        If the window is not within the run, or the limit is below 1.
    ScenarioError, ProfileError, TraceError
        If the scenario cannot be run.
    """
    check_scenario(scenario)
    begin_ns, length_ns = window_ns(scenario, begin, length)
    end_ns = begin_ns + length_ns
    if limit < 1:
        raise UserError(f"limit: must be at least 1, got {limit}")
    profile = profile or profile_of(scenario)
    seed = scenario.run.seed if seed is None else seed
    job = job_of(scenario, profile, seed)
    settings = settings_of(scenario, job.network_delay_ns, seed, kernel=job.kernel)
    settings = settings._replace(
        duration_ns=end_ns, warm_up_ns=min(begin_ns, settings.warm_up_ns), sample_every_ns=0
    )
    known = CATALOGUE[scenario.server.mechanism]
    has_queue = not known.mechanism.traits.isdisjoint((Trait.BY_SIGNALS, Trait.BY_PORT))
    queues = TOLD if has_queue else {}
    rows = first_rows(scenario)
    while True:
        trace = trace_of(scenario, seed, rows)
        worlds: list[World] = []

        def found(_: Environment, world: World, into: list[World] = worlds) -> None:
            into.append(world)

        recorder = Recorder(
            begin_ns, end_ns, limit=limit, queues=queues, look=state_of, states_max=STATES
        )
        outcome = simulate(
            program_of(scenario), trace, job.costs, settings, extend=found, observe=recorder
        )
        if lasted(trace, outcome):
            break
        rows = 2 * len(trace)
    recorder.finish(worlds[0])
    return Recording(
        scenario=scenario,
        seed=seed,
        profile=profile.name,
        begin_ns=begin_ns,
        end_ns=recorder.whole_until_ns,
        asked_end_ns=end_ns,
        spans=tuple(recorder.spans),
        events=tuple(recorder.events),
        lengths=tuple(recorder.lengths),
        queue_names=recorder.queue_names,
        states=tuple(recorder.states),
        requests=requests_of(worlds[0], begin_ns, recorder.whole_until_ns),
        n_cpus=len(worlds[0].cpus),
        n_workers=len(worlds[0].workers),
        outcome=outcome,
    )


def window_ns(
    scenario: Scenario,
    begin: str | int | None,
    length: str | int,
    names: tuple[str, str] = ("begin", "length"),
) -> tuple[int, int]:
    """Return the beginning and the length of a window of the run of *scenario*.

    Parameters
    ----------
    scenario:
        The scenario to run.
    begin, length:
        Durations with their unit, or whole ns; a *begin* of None: the end of the warm-up.
    names:
        Names of both, for messages.

    Raises
    ------
    UserError
        With the name, the rule and the value, if the window is not within the run.
    """
    begin_ns = scenario.run.warm_up if begin is None else _nanoseconds(names[0], begin)
    length_ns = _nanoseconds(names[1], length)
    last_ns = scenario.run.duration
    run = f"the run, which lasts {DURATION.format(last_ns)}"
    if not 0 <= begin_ns < last_ns:
        raise UserError(f"{names[0]}: must be within {run}, got {_as_given(begin)}")
    left_ns = last_ns - begin_ns
    if length_ns <= 0:
        raise UserError(f"{names[1]}: must be above 0, got {_as_given(length)}")
    if length_ns > left_ns:
        rest = f"{DURATION.format(left_ns)}, the rest of {run}"
        raise UserError(f"{names[1]}: must be at most {rest}, got {_as_given(length)}")
    return begin_ns, length_ns


def _nanoseconds(name: str, value: str | int) -> int:
    if isinstance(value, int | np.integer):
        return int(value)
    try:
        return parse_duration_ns(value)
    except QuantityError as error:
        raise UserError(f"{name}: {error}") from None


def _as_given(value: str | int | None) -> str:
    return value if isinstance(value, str) else f"{value} ns"
