"""Whole scenarios for both engines: drawn at random within a bound, or written down one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from tests.served import Served, on_server
from tests.toy import CALL, IDLE, INTERRUPT, SINCE, WAY, toy_costs

from dispatchsim.models.catalogue import CATALOGUE, MECHANISMS
from dispatchsim.models.simulate import simulate
from dispatchsim.models.suitable_settings import tells_states
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace, closed_loop
from dispatchsim.sim.state.backend_settings import BackendSettings
from dispatchsim.sim.state.client_classes import ClientClass
from dispatchsim.sim.state.client_settings import (
    ClientSettings,
    Closing,
    NetworkSettings,
    PathSettings,
)
from dispatchsim.sim.state.costs import (
    NO_CLIENT,
    ApplicationCosts,
    ClientCosts,
    ColdCosts,
    Costs,
    Curve,
    curve,
    flat,
    per_item,
)
from dispatchsim.sim.state.family_settings import Recovery, Threads
from dispatchsim.sim.state.host_gaps import HostGaps
from dispatchsim.sim.state.kernel_settings import EVERY_CPU, Packets
from dispatchsim.sim.state.kinds import NONE
from dispatchsim.sim.state.laws import Counts, Law, Laws, ReplyMix
from dispatchsim.sim.state.mechanism import Trait
from dispatchsim.sim.state.program_settings import Sharing, Wakes
from dispatchsim.sim.state.settings import Fault, FaultKind, FloodSettings, RunSettings
from dispatchsim.sim.state.units import SECOND_NS
from dispatchsim.sim.state.world import World

BUSY_CLIENT = ClientCosts(
    700, 300, 200, 250, interrupt_ns=150, connect_after_ns=120, close_after_ns=90
)
LONG_NS = 300 * SECOND_NS
"""Behind the last of all retransmissions: whatever can happen has happened."""


PATHS = (
    PathSettings(300),
    PathSettings(500, 7_000, 0, 1_000_000_000),
    PathSettings(200, 300, 50_000_000, 0, loss_millionths=200_000),
)
"""A LAN, a slower one, and one that loses a fifth."""


class Scene(NamedTuple):
    """One run, but for its engine; entries that vary are dearer for a datagram, too."""

    mechanism: str
    trace: Trace
    run: RunSettings = RunSettings()
    client: ClientCosts = NO_CLIENT
    entry_since: Curve = flat(0)
    is_fine: bool = False

    @property
    def costs(self) -> Costs:
        """The toy costs of its mechanism; with those that most tests leave out, if it is fine."""
        interrupt = INTERRUPT._replace(
            entry_since=self.entry_since, datagram_entry_ns=130 if any(self.entry_since.ns) else 0
        )
        if not self.is_fine:
            return toy_costs(self.mechanism, self.client, interrupt=interrupt)
        fine = toy_costs(
            self.mechanism,
            self.client._replace(ack_ns=60) if any(self.client) else self.client,
            interrupt=interrupt._replace(
                syn_after_ns=30,
                syn_saved_ns=90,
                data_saved_ns=25,
                left_ns=12,
                cold_ns=45,
                way=WAY,
                idle_exit_since=IDLE,
                reply_acked_ns=55,
                syn_cold_ns=65,
                idle_saved_ns=50,
                displaced_ns=75,
            ),
            call=CALL._replace(
                accept_after_ns=20,
                write_after_ns=70,
                crossing_ns=15,
                delivery_ns=250,
                delivery_after_ns=40,
                close_delivery_ns=170,
                close_delivery_after_ns=30,
                accept_cold_ns=85,
            ),
            application=ApplicationCosts(150, connection_ns=35),
        )
        fine = fine._replace(cold=ColdCosts(*(curve({0: k, 1: 9 + k, 4: 40}) for k in range(8))))
        if self.mechanism not in ("select", "poll"):
            return fine
        return fine._replace(mechanism=fine.mechanism._replace(read_back=per_item(3)))


def on_fast(scene: Scene) -> Outcome:
    """Return the outcome of *scene* on the fast engine."""
    return simulate(scene.mechanism, scene.trace, scene.costs, scene.run, engine="fast")


def on_reference(scene: Scene) -> tuple[Outcome, World]:
    """Return the outcome of *scene* on the reference engine, and the world at its end."""
    worlds: list[World] = []
    outcome = simulate(
        scene.mechanism,
        scene.trace,
        scene.costs,
        scene.run,
        engine="reference",
        extend=lambda _, world: worlds.append(world),
    )
    return outcome, worlds[0]


def comes_at(
    *at_ns: int, requests: int = 1, reply_bytes: int = 64, think_ns: int = 0, bytes_up: int = 64
) -> Trace:
    """Return an open loop of connections that are all alike."""
    values = (requests, bytes_up, reply_bytes, think_ns)
    columns = (np.full(len(at_ns), value, np.int64) for value in values)
    return Trace("open", 0, np.sort(np.array(at_ns, np.int64)), *columns)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Draw a closed loop, or an open one of few distinct times, which make many ties."""
    requests = draw(st.integers(1, 3))
    reply_bytes = draw(st.sampled_from([64, 1_500, 20_000]))
    think_ns = draw(st.sampled_from([0, 500, 30_000]))
    if draw(st.booleans()):
        return closed_loop(
            users=draw(st.integers(1, 20)),
            connections=draw(st.integers(1, 120)),
            seed=draw(st.integers(0, 5)),
            requests=requests,
            reply_bytes=reply_bytes,
            think_ns=think_ns,
        )
    grid_ns = draw(st.sampled_from([1, 100, 5_000]))
    at = draw(st.lists(st.integers(0, 60), min_size=1, max_size=80))
    return comes_at(
        *(tick * grid_ns for tick in at),
        requests=requests,
        reply_bytes=reply_bytes,
        think_ns=think_ns,
    )


def kept_at(users: int, due: list[tuple[int, int]], requests: int, reply_bytes: int) -> Trace:
    """Return kept connections, some to spare, and requests due at (ns, user)."""
    n = users + 40
    at_ns, user = np.array(sorted(due), np.int64).T
    columns = [np.full(n, value, np.int64) for value in (0, requests, 64, reply_bytes, 0)]
    return Trace("kept", users, *[*columns, at_ns.copy(), user.copy()])


@st.composite
def kept_traces(draw: st.DrawFn, users: int) -> Trace:
    """Draw requests over kept connections, at few distinct times."""
    grid_ns = draw(st.sampled_from([1, 100, 5_000]))
    tick, user = st.integers(0, 60), st.integers(0, users - 1)
    due = draw(st.lists(st.tuples(tick, user), min_size=1, max_size=80))
    return kept_at(
        users,
        [(at * grid_ns, user) for at, user in due],
        draw(st.sampled_from([1, 2, 2**31 - 1])),
        draw(st.sampled_from([64, 1_500, 20_000])),
    )


@st.composite
def with_classes(draw: st.DrawFn, scene: Scene) -> Scene:
    """Draw classes for the clients of *scene*."""
    trace, n_paths = scene.trace, len(scene.run.network.paths)
    numbers = [
        Counts(),
        Counts("constant", 3),
        Counts("geometric", 2),
        Counts("samples", 1, (1, 4)),
    ]
    sizes = [(64, None), (20_000, None), (64, ReplyMix((0.5, 0.5), ((64, 900), (1_500,))))]
    pauses = [Law("constant"), Law("constant", 30_000), Law("exponential", 3_000)]
    classes = []
    for share in draw(st.sampled_from([(500, 500), (10, 290, 700)])):
        reply_bytes, mix = draw(st.sampled_from(sizes))
        classes.append(
            ClientClass(
                share,
                draw(st.sampled_from(numbers)),
                draw(st.sampled_from([64, 3_000])),
                reply_bytes,
                mix,
                draw(st.sampled_from(pauses)),
                draw(st.integers(NONE, n_paths - 1)),
            )
        )
    n = trace.users or len(trace)
    drawn = st.lists(st.integers(0, len(classes) - 1), min_size=n, max_size=n)
    of_each = np.array(draw(drawn), np.int64)
    if trace.users:
        classed = replace(trace, user_class=of_each)
    else:
        classed = replace(trace, client_class=of_each)
    return scene._replace(trace=classed, run=scene.run._replace(classes=tuple(classes)))


def _laws(draw: st.DrawFn) -> Laws:
    """Draw what is drawn: nothing, in most scenes."""
    law = draw(st.sampled_from([None, None, Law("exponential", 700), Law("lognormal", 500, 2_000)]))
    return Laws(law, draw(st.sampled_from([None, Law("exponential", 3_000)])))


def asks_backends(mechanism: str) -> bool:
    """Return whether the server with *mechanism* may ask a backend."""
    entry = CATALOGUE[mechanism]
    return entry.runs_event_loop or entry.program == "thread_per_connection"


def _with_backend(draw: st.DrawFn, scene: Scene, *, always: bool) -> Scene:
    """Draw a backend, in some scenes or *always*, and descriptors for it."""
    mechanism, run = scene.mechanism, scene.run
    hands_over = (
        Trait.BY_SIGNALS in MECHANISMS[mechanism].traits and run.signals.recovery_hands_over
    )
    if not asks_backends(mechanism) or hands_over or not (always or draw(st.integers(0, 2)) == 0):
        return scene
    in_common = MECHANISMS[mechanism].one_at_a_time
    backend = BackendSettings(
        connections=(1 if in_common else run.program.workers) + draw(st.sampled_from([0, 1, 4])),
        delay_ns=draw(st.sampled_from([1, 5_000, 60_000])),
        limit=draw(st.sampled_from([0, 1, 3])),
        share_permille=draw(st.sampled_from([1_000, 1_000, 400])),
    )
    delays = draw(st.sampled_from([None, Law("exponential", backend.delay_ns)]))
    n, limits, client = backend.connections, run.limits, run.client
    watches = limits.epoll_watches + n if limits.epoll_watches else 0
    files_max = run.kernel.files_max + n if run.kernel.files_max else 0
    closes_half = client.closing == Closing.HALF_CLOSE
    return scene._replace(
        run=run._replace(
            backend=backend,
            laws=run.laws._replace(backend_delay=delays),
            kernel=run.kernel._replace(files_max=files_max),
            limits=limits._replace(fd_limit=limits.fd_limit + n, epoll_watches=watches),
            client=client._replace(closing=int(Closing.FIN) if closes_half else client.closing),
        )
    )


def _signals(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what only servers have that are told by signals."""
    return {
        "signal_queue": draw(st.sampled_from([1, 3, 1024])),
        "signal_numbers": draw(st.sampled_from([1, 3])),
        "recovery": int(draw(st.sampled_from([r for r in Recovery if r is not Recovery.NOTHING]))),
        "recovery_array_kept": draw(st.booleans()),
        "recovery_hands_over": draw(st.booleans()),
        "overflow_told_last": draw(st.booleans()),
        "passes_listener": draw(st.booleans()),
        "accept_each_signal": draw(st.booleans()),
        "poll_above": draw(st.sampled_from([0, 2])),
        "calm_below": draw(st.sampled_from([1, 3])),
    }


def _threads(draw: st.DrawFn, idle: int) -> dict[str, Any]:
    """Draw what only servers have whose threads block: one more than idle connections hold."""
    threads = draw(st.sampled_from(Threads))
    workers = idle + draw(st.integers(1, 5)) + (threads != Threads.POOL)
    fits = draw(st.integers(idle + 2, workers)) if threads == Threads.ON_DEMAND else workers
    return {
        "threads": int(threads),
        "workers": workers,
        "stack_bytes": 1_000,
        "address_space_bytes": 1_000 * fits,
        "fd_limit": draw(st.sampled_from([idle + 8, 10_000])),
        "wakes": int(draw(st.sampled_from([Wakes.USUAL, Wakes.ALL]))),
        "sharing": int(Sharing.ACCEPT_QUEUE),
        "busy": False,
    }


def _ports(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what only servers have whose threads wait at a completion port."""
    return {
        "concurrent_threads": draw(st.integers(0, 3)),
        "sends_block": draw(st.booleans()),
        "sharing": int(Sharing.ACCEPT_QUEUE),
        "busy": False,
    }


@st.composite
def servers(draw: st.DrawFn, mechanism: str, idle: int) -> Served:
    """Draw a server whose settings go together."""
    workers = draw(st.integers(1, 5))
    cpus = draw(st.integers(1, 4))
    sharings = [Sharing.NOTHING, Sharing.ACCEPT_QUEUE]
    if mechanism == "epoll_level":
        sharings.append(Sharing.READY_LIST)
    if mechanism in ("select", "poll", "epoll_level"):
        sharings.append(Sharing.HANDED_OVER)
    sharing = draw(st.sampled_from(sharings)) if workers > 1 else Sharing.ACCEPT_QUEUE
    signals = _signals(draw) if Trait.BY_SIGNALS in MECHANISMS[mechanism].traits else {}
    if signals.get("passes_listener"):
        sharing = Sharing.ACCEPT_QUEUE
    own_fds = max(1, MECHANISMS[mechanism].fds) + 2 * signals.get("recovery_hands_over", False)
    fds = idle + 4 + (1 + own_fds) * workers
    drawn = on_server(
        **signals,
        accept_limit=draw(st.integers(0, 3)),
        listener_last=draw(st.booleans()),
        read_after_accept=sharing in (Sharing.NOTHING, Sharing.ACCEPT_QUEUE)
        and draw(st.booleans()),
        backlog=draw(st.sampled_from([1, 3, 128])),
        refuse=draw(st.booleans()),
        # Several that spin take a step for each look, and there are billions in the longest runs.
        # A sibling is another one.
        busy=workers == 1 and not signals.get("recovery_hands_over", False) and draw(st.booleans()),
        epoll_watches=draw(st.sampled_from([0, idle + workers + 1, idle + workers + 20]))
        if Trait.IN_EPOLL in MECHANISMS[mechanism].traits and mechanism != "epoll_ctlv"
        else 0,
        removes_first=draw(st.booleans()),
        array_rebuilt=draw(st.booleans()),
        max_events=draw(st.sampled_from([1, 4, 1024])),
        fd_limit=draw(st.sampled_from([max(8, fds + 1), fds + 12, 10_000])),
        send_buffer_bytes=draw(st.sampled_from([1_000, 4_096, 10**6])),
        workers=workers,
        cpus=cpus,
        sharing=int(sharing),
        wakes=int(Wakes.ONE) if mechanism == "epoll_level" and draw(st.booleans()) else 0,
        closes_first=draw(st.booleans()),
        drops_half_closed=draw(st.integers(0, 3)) == 0,
        request_cpu_ns=draw(st.sampled_from([0, 0, 700])),
        connection_cpu_ns=draw(st.sampled_from([0, 0, 900])),
        reply_cpu_per_kb_ns=draw(st.sampled_from([0, 0, 130])),
        writes_when_told=tells_states(CATALOGUE[mechanism]) and draw(st.booleans()),
        interrupt_cpu=draw(st.integers(EVERY_CPU, cpus - 1)),
        slice_ns=draw(st.sampled_from([1, 400, 3_000, 1_400_000])),
        tick_ns=draw(st.sampled_from([400, 3_000, 50_000, 4_000_000])),
    )
    if not CATALOGUE[mechanism].runs_event_loop:
        drawn = drawn.but(accept_limit=0, listener_last=False, read_after_accept=False)
    if mechanism == "completion_port":
        return drawn.but(**_ports(draw))
    if mechanism == "io_uring":
        at_once = draw(st.sampled_from([0, 1, 2, 20]))
        last_first = at_once == 0 and draw(st.booleans())
        return drawn.but(
            due_at_once=at_once,
            due_last_first=last_first,
            accept_looks_again=draw(st.booleans()),
        )
    if mechanism == "blocking":
        drawn = drawn.but(**_threads(draw, idle))
    if sharing != Sharing.READY_LIST and draw(st.integers(0, 3)) == 0:
        fds = drawn.fd_limit + workers
        watches = drawn.epoll_watches + workers if drawn.epoll_watches else 0
        drawn = drawn.but(
            request_timeout_ns=draw(st.sampled_from([1, 15_000, 60_000])),
            timeout_check_ns=draw(st.sampled_from([4_000, 50_000])),
            fd_limit=fds,
            epoll_watches=watches,
        )
    return drawn


def _kernel(draw: st.DrawFn, server: Served) -> Served:
    """Draw who handles packets, and who else wants the CPUs: seldom, as most kernels are idle."""
    if draw(st.integers(0, 2)) > 0:
        return server
    packets = draw(st.sampled_from(Packets))
    return server.but(
        busy_processes=draw(st.integers(0, 2)),
        busy_nice=draw(st.sampled_from([0, -20, 19])),
        packets=int(packets),
        softirq_budget=draw(st.sampled_from([0, 1, 4, 640])),
        receive_queue=draw(st.sampled_from([1, 5, 1000])),
        coalesce_ns=0 if packets != Packets.SOFTIRQ else draw(st.sampled_from([0, 300, 20_000])),
        polling_share_permille=draw(st.sampled_from([1, 500, 1000])),
        polling_tick_ns=draw(st.sampled_from([1_000, 50_000])),
        wake_preemption=draw(st.booleans()),
        granularity_ns=draw(st.sampled_from([0, 2_000])),
        credit_ns=draw(st.sampled_from([0, 5_000])),
        files_max=draw(st.sampled_from([0, 0, 100])),
        memory_bytes=draw(st.sampled_from([0, 0, 45_000])),
        connection_bytes=1_000,
    )


def _floods(draw: st.DrawFn) -> FloodSettings:
    """Draw a flood of not too many datagrams, or none."""
    if draw(st.integers(0, 3)) > 0:
        return FloodSettings()
    from_ns = draw(st.sampled_from([0, 5_000]))
    return FloodSettings(
        gap_ns=draw(st.sampled_from([100, 1_500])),
        burst=draw(st.sampled_from([1, 3])),
        is_poisson=draw(st.booleans()),
        from_ns=from_ns,
        until_ns=from_ns + draw(st.sampled_from([40_000, 200_000])),
    )


def _faults(draw: st.DrawFn, cpus: int) -> tuple[Fault, ...]:
    """Draw what goes wrong, for a short while."""
    values = {
        FaultKind.STALL: st.integers(0, cpus - 1),
        FaultKind.LINK: st.sampled_from([0, 1_000_000]),
        FaultKind.SIGNALS: st.sampled_from([0, 2, 2_000]),
        FaultKind.READING: st.sampled_from([300, 1_000]),
    }
    kinds = draw(st.lists(st.sampled_from(FaultKind), max_size=2))
    return tuple(
        Fault(
            int(kind),
            draw(st.sampled_from([0, 7_000, 30_000])),
            draw(st.sampled_from([1, 2_500, 60_000])),
            draw(values[kind]),
        )
        for kind in kinds
    )


def _with_gaps(draw: st.DrawFn, run: RunSettings) -> RunSettings:
    """Draw gaps of the host on the CPUs of server and clients, some hundreds in the run at most."""
    period_ns = draw(st.sampled_from([15_000, 200_000]))
    period_ns = max(period_ns, run.duration_ns // 100)
    pauses = st.sampled_from([0, 1, 40, 700, 3_000])
    lengths = st.sampled_from([1, 30, 700, 5_000])
    recordings = []
    for _ in range(2):
        at_ns, length_ns, end_ns = [], [], 0
        for pause, length in draw(st.lists(st.tuples(pauses, lengths), max_size=5)):
            if end_ns + pause + length < period_ns:
                at_ns.append(end_ns + pause)
                length_ns.append(length)
                end_ns += pause + length
        is_drawn = draw(st.booleans())
        recordings.append(HostGaps(tuple(at_ns), tuple(length_ns), period_ns, is_drawn))
    return run._replace(server_gaps=recordings[0], client_gaps=recordings[1])


@st.composite
def retries(draw: st.DrawFn) -> dict[str, int]:
    """Draw clients who try again."""
    return {
        "retries": draw(st.sampled_from([1, 3])),
        "retry_pause_ns": draw(st.sampled_from([0, 700, 40_000])),
        "retry_pause_max_ns": draw(st.sampled_from([0, 90_000])),
        "retry_jitter_permille": draw(st.sampled_from([0, 500, 1_000])),
        "retry_budget_permille": draw(st.sampled_from([0, 300])),
        "ports": draw(st.sampled_from([0, 3])),
        "time_wait_ns": draw(st.sampled_from([0, 30_000])),
    }


@st.composite
def pieces(draw: st.DrawFn) -> dict[str, int]:
    """Draw clients whose requests come in pieces."""
    return {
        "request_pieces": draw(st.sampled_from([2, 5])),
        "piece_pause_ns": draw(st.sampled_from([0, 400, 25_000])),
        "pieces_permille": draw(st.sampled_from([1_000, 400])),
    }


@st.composite
def scenes(
    draw: st.DrawFn,
    mechanism: str,
    *,
    keeps: bool = False,
    classes: bool = False,
    asks: bool = False,
) -> Scene:
    """Draw a scenario for *mechanism*, perhaps with connections that clients keep open.

    With *classes* some have classes of clients; with *asks* there is a backend.
    """
    idle = draw(st.sampled_from([0, 1, 40]))
    idle_life_ns = draw(st.sampled_from([0, 50_000])) if idle else 0
    # To the end of everything, unless it would be filled by idle ones that come and go, or by
    # waits that tell of connections that could write, but have nothing to.
    spins = mechanism in ("epoll_once", "dev_poll_or")
    long_ns = 2_000_000 if idle_life_ns or spins else LONG_NS
    bits = draw(st.sampled_from([0, 10_000_000, 1_000_000_000]))
    users = draw(st.sampled_from([0, 0, 0, 1, 5])) if keeps else 0
    server = _kernel(draw, draw(servers(mechanism, idle + users)))
    if server.request_timeout_ns > 0 or users > 0:
        long_ns = 2_000_000  # its timer never rests, nor do clients that open what was lost again
    paths = draw(st.sampled_from([(), (), PATHS])) if users == 0 else ()
    # Busy processes never end. Nor does a server that cannot accept cease to try while those that
    # it has accepted wait for lost packets.
    loses = bool(paths) or 0 < server.softirq_budget < 640 or server.packets != Packets.SOFTIRQ
    lacks_fds = server.fd_limit < 10_000 or server.files_max > 0
    if server.busy_processes > 0 or (loses and lacks_fds):
        long_ns = 2_000_000
    set_up = draw(st.sampled_from([1, 1, 0, 2])) if users == 0 else 1
    in_pieces = draw(pieces()) if set_up > 0 and draw(st.integers(0, 3)) == 0 else {}
    duration_ns = draw(st.sampled_from([50_000, 1_000_000, long_ns]))
    if server.busy_processes > 0:
        duration_ns = min(duration_ns, 50_000 * server.tick_ns)  # each tick is an occurrence
    scene = Scene(
        mechanism,
        draw(traces()) if users == 0 else draw(kept_traces(users)),
        RunSettings(
            **server,
            network=NetworkSettings(
                draw(st.sampled_from([0, 50, 20_000])),
                bits,
                bits,
                window_segments=draw(st.sampled_from([0, 0, 1, 10])),
                receive_window_bytes=draw(st.sampled_from([0, 3_000])),
                set_up=set_up,
                paths=paths,
                timer_tick_ns=draw(st.sampled_from([0, 4_000_000])),
                one_machine=draw(st.booleans()),
            ),
            client=ClientSettings(
                timeout_ns=draw(st.sampled_from([0, 20_000, 400_000])),
                fd_limit=draw(st.sampled_from([3, 10_000])),
                idle=idle,
                idle_life_ns=idle_life_ns,
                closing=int(draw(st.sampled_from(Closing))),
                **(draw(st.one_of(st.just({}), retries())) if users == 0 else {}),
                **in_pieces,
            ),
            laws=_laws(draw),
            flood=_floods(draw),
            faults=_faults(draw, server.cpus),
            duration_ns=duration_ns,
            warm_up_ns=draw(st.sampled_from([0, 12_345])),
            sample_every_ns=draw(st.sampled_from([0, SECOND_NS])),
        ),
        draw(st.sampled_from([NO_CLIENT, BUSY_CLIENT])),
        draw(st.sampled_from([flat(0), flat(0), SINCE])),
        is_fine=draw(st.booleans()),
    )
    if classes and draw(st.integers(0, 3)) == 0:
        scene = draw(with_classes(scene))
    scene = _with_backend(draw, scene, always=asks)
    if draw(st.integers(0, 2)) == 0:
        scene = scene._replace(run=_with_gaps(draw, scene.run))
    waits_long = scene.run.backend.connections > 0 or bool(scene.run.classes)
    if lacks_fds and waits_long and scene.run.duration_ns > 2_000_000:
        # It tries to accept again and again while those that it has accepted pause, or wait.
        return scene._replace(run=scene.run._replace(duration_ns=2_000_000))
    return scene
