"""One call from a mechanism, a trace and costs to the outcome of a run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

from ..sim.assembly.build import build_world
from ..sim.assembly.row_window import RowWindow
from ..sim.engine.c.library import warn_if_no_engine
from ..sim.engine.c.run import CannotCompileError, CRun, Interrupted, is_at_hand
from ..sim.engine.reference import Extension, Observer, ReferenceRun
from ..sim.figures.outcome import Outcome, outcome_of
from ..sim.figures.summary import Summary
from ..sim.figures.tally import Tallies
from ..sim.files.parallel import stoppable
from ..sim.load.workload import Trace, TraceBlocks
from ..sim.state.columns import MakeColumn, as_arrays, as_lists
from ..sim.state.costs import Costs
from ..sim.state.mechanism import Mechanism, Program, Trait
from ..sim.state.settings import RunSettings
from ..sim.state.world import World
from .catalogue import CATALOGUE, MECHANISMS, client_of, making_programs, named, server_of
from .client_settings import client_settings
from .epoll.other_kernels import without_crossing
from .programs.event_loop import event_loop
from .suitable_settings import settings_for

Engine = Literal["auto", "fast", "reference"]
ENGINES: tuple[Engine, ...] = ("auto", "fast", "reference")
_MANY_CONNECTIONS = 2**40  # of a trace of unknown length: no limit but that of descriptors


class ReferenceEngineWarning(UserWarning):
    """The fast engine cannot run a program; the reference engine does, with the same outcome."""


class InterruptedRun(KeyboardInterrupt):
    """Ctrl-C during a run on the fast engine; `outcome` is that of the time until then."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"stopped after {outcome.duration_ns} ns of simulated time")
        self.outcome = outcome


def simulate(
    mechanism: str | Mechanism | Program,
    trace: Trace,
    costs: Costs,
    settings: RunSettings,
    *,
    engine: Engine = "auto",
    extend: Extension | None = None,
    observe: Observer | None = None,
    progress: Callable[[int], None] | None = None,
    requests_max: int | None = None,
) -> Outcome:
    """Run a server program under *trace* and return its outcome.

    Parameters
    ----------
    mechanism:
        A name of `MECHANISMS` or its alias ("epoll"); your own mechanism, which the event loop
        uses; or a whole program.
    trace, costs, settings:
        The arrivals, the costs, and all other settings.
    engine:
        "fast" (compiled), "reference" (SimPy), or "auto": fast where possible. The outcomes are
        equal in every entry.
    extend, observe:
        As for `ReferenceRun`; only the reference engine supports them.
    progress:
        Called with the simulated time in ns, at intervals.
    requests_max:
        Largest number of requests that the run stores (`Outcome.n_silent`); None: all of the
        trace, although few of them may be due in the run.

    Raises
    ------
    ValueError
        For an unknown mechanism or engine, a setting out of its range, or an idle population that
        does not fit the server's descriptors.
    CannotCompileError
        If the fast engine was asked for and cannot run the program.
    InterruptedRun
        On Ctrl-C in the fast engine, with the outcome so far.
    StoppedError
        In a thread of an executor that is stopped, at the next progress.
    """
    if engine not in ENGINES:
        raise ValueError(f'engine must be one of {", ".join(ENGINES)}, got "{engine}"')
    progress = stoppable(progress)
    program = program_of(mechanism)
    looks_inside = extend is not None or observe is not None
    if looks_inside and engine == "fast":
        raise ValueError("extend and observe look inside the run: they need engine reference")
    if engine != "reference" and not looks_inside:
        try:
            return _simulate_fast(
                program, trace, costs, settings, progress, requests_max=requests_max
            )
        except CannotCompileError as error:
            if engine == "fast":
                raise
            if not warn_if_no_engine():
                warnings.warn(
                    f"running on the reference engine: {error}",
                    ReferenceEngineWarning,
                    stacklevel=2,
                )
    world = prepare_world(program, trace, costs, settings, requests_max=requests_max)
    run = ReferenceRun(
        program,
        world,
        duration_ns=settings.duration_ns,
        warm_up_ns=settings.warm_up_ns,
        extend=extend,
        observe=observe,
    )
    return outcome_of(run.run(progress), settings.duration_ns, program.mechanism)


def simulate_stream(
    mechanism: str | Mechanism | Program,
    blocks: TraceBlocks,
    costs: Costs,
    settings: RunSettings,
    *,
    exact: bool = False,
    window_rows: int = 65_536,
    progress: Callable[[int], None] | None = None,
) -> Summary:
    """Run a server program under the trace of *blocks* and return its metrics.

    The fast engine needs memory only for open connections: records of ended connections go into
    counters and histograms. A run of 100 million connections holds a window of rows.

    Parameters
    ----------
    mechanism, costs, settings, progress:
        As for `simulate`. The number of connections is unknown, so clients with a descriptor
        limit below 2**40 never count as free of cost and queue here.
    blocks:
        The connections, generated as they are needed.
    exact:
        Whether every latency is kept (8 bytes each) instead of a histogram.
    window_rows:
        Rows in the window at first; it grows with the number of open connections.

    Raises
    ------
    ValueError, CannotCompileError
        As for `simulate`; there is no streaming on the reference engine.
    Interrupted
        On Ctrl-C.
    """
    program = program_of(mechanism)
    if program.calls:
        raise ValueError("a client's run cannot be streamed: it may connect at any step")
    rows = max(window_rows // (1 + settings.client.retries), 4 * blocks.users, 1)
    first = blocks.take(rows)
    if first is None:
        raise ValueError("the trace has no connections")
    world = prepare_world(
        program,
        first,
        costs,
        settings,
        as_arrays,
        n_connections=_MANY_CONNECTIONS,
        requests_max=2 * rows,
        has_several=blocks.has_several,
    )
    tallies = Tallies(
        settings.warm_up_ns,
        settings.duration_ns,
        exact=exact,
        n_paths=len(settings.network.paths),
        n_classes=len(settings.classes),
    )
    window = RowWindow(blocks, world, tallies)
    run = CRun(
        program,
        world,
        duration_ns=settings.duration_ns,
        warm_up_ns=settings.warm_up_ns,
        kept_as=kept_as(program),
        refill=window.refill,
    )
    run.run(stoppable(progress))
    return window.finish(settings.duration_ns, program.mechanism)


def _simulate_fast(
    program: Program,
    trace: Trace,
    costs: Costs,
    settings: RunSettings,
    progress: Callable[[int], None] | None,
    *,
    requests_max: int | None,
) -> Outcome:
    world = prepare_world(program, trace, costs, settings, as_arrays, requests_max=requests_max)
    try:
        run = CRun(
            program,
            world,
            duration_ns=settings.duration_ns,
            warm_up_ns=settings.warm_up_ns,
            kept_as=kept_as(program),
        )
        return outcome_of(run.run(progress), settings.duration_ns, program.mechanism)
    except Interrupted as stopped:
        so_far = outcome_of(stopped.world, stopped.world.now_ns, program.mechanism)
        raise InterruptedRun(so_far) from None


def engine_is_at_hand(
    mechanism: str | Mechanism | Program, trace: Trace, costs: Costs, settings: RunSettings
) -> bool:
    """Return whether the fast engine for a run is compiled already; parameters as for `simulate`.

    Raises
    ------
    CannotCompileError
        If it cannot be compiled.
    """
    program = program_of(mechanism)
    world = prepare_world(program, trace, costs, settings, as_arrays)
    return is_at_hand(program, world, kept_as=kept_as(program))


def kept_as(program: Program) -> str | None:
    """Return the name of the engine of a built-in program; None for other programs."""
    mechanism = program.mechanism
    known = CATALOGUE.get(mechanism.name)
    if known is None or known.mechanism is not mechanism:
        return None
    if program is client_of(known):
        return f"{mechanism.name}-client"
    return mechanism.name if program is server_of(known) else None


def program_of(mechanism: str | Mechanism | Program) -> Program:
    """Return the program of a known mechanism, the event loop around a new one, or a given program.

    Raises
    ------
    ValueError
        For an unknown mechanism.
    """
    if isinstance(mechanism, Program):
        return mechanism
    if isinstance(mechanism, str):
        mechanism = named(mechanism)
        if mechanism not in MECHANISMS:
            names = ", ".join(MECHANISMS)
            raise ValueError(f'mechanism must be one of {names}, got "{mechanism}"')
        mechanism = MECHANISMS[mechanism]
    known = CATALOGUE.get(mechanism.name)
    if known is None or known.mechanism is not mechanism:
        with making_programs:
            return event_loop(mechanism)
    return server_of(known)


def prepare_world(
    mechanism: str | Mechanism | Program,
    trace: Trace,
    costs: Costs,
    settings: RunSettings,
    column: MakeColumn = as_lists,
    *,
    n_connections: int | None = None,
    n_led: int = 0,
    requests_max: int | None = None,
    has_several: bool = False,
) -> World:
    """Return the world before the run, with the settings bounded by the mechanism.

    Raises
    ------
    ValueError
        If a setting is out of its range or does not go with the mechanism.
    """
    program = program_of(mechanism)
    own = program.mechanism
    settings = _with_laws(settings)
    if program.calls:
        settings = client_settings(own, trace, settings)
    else:
        n_kept = trace.users if trace.loop == "kept" else 0
        settings = settings_for(own, settings, n_kept)
    if Trait.IN_KERNEL in own.traits:
        costs = costs._replace(call=without_crossing(costs.call))
    return build_world(
        program,
        trace,
        costs,
        settings,
        column,
        n_connections=n_connections,
        n_led=n_led,
        requests_max=requests_max,
        has_several=has_several,
    )


def _with_laws(settings: RunSettings) -> RunSettings:
    """Return *settings* with flags for random values from a law."""
    laws = settings.laws
    of_some = laws.pause is not None or any(each.has_drawn_pauses for each in settings.classes)
    return settings._replace(
        program=settings.program._replace(request_cpu_drawn=laws.request_cpu is not None),
        client=settings.client._replace(pauses_drawn=int(of_some)),
        backend=settings.backend._replace(delay_drawn=laws.backend_delay is not None),
    )
