"""A run inside somebody's environment is the run that it would be alone, to the nanosecond."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import simpy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.scenes import BUSY_CLIENT, Scene, comes_at, on_reference, scenes
from tests.served import on_server

from dispatchsim.models.catalogue import MECHANISMS
from dispatchsim.models.simulate import prepare_world, program_of
from dispatchsim.sim.engine.hosted import HostedRun
from dispatchsim.sim.engine.led_client import LedClient
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace, closed_loop
from dispatchsim.sim.state.client_settings import ClientSettings, Closing
from dispatchsim.sim.state.kinds import NEVER_NS, NONE, Status
from dispatchsim.sim.state.settings import RunSettings

START_NS = 17
ASKING = ("dev_poll_or", "epoll_once")
"""They ask again and again, up to the next event of the environment: a bystander cuts that up."""


class NsClock:
    """An environment that counts ns."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.start = env.now

    def now_ns(self) -> int:
        return int(self.env.now - self.start)

    def next_ns(self) -> int:
        at = self.env.peek()
        return NEVER_NS if at == float("inf") else int(at - self.start)

    def delay(self, at_ns: int) -> float:
        return self.start + at_ns - self.env.now


def hosted(scene: Scene, trace: Trace, env: simpy.Environment, **more: Any) -> HostedRun:
    """Return the run of *scene* with the connections of *trace*, from START_NS on."""
    program = program_of(scene.mechanism)
    world = prepare_world(program, trace, scene.costs, scene.run, n_led=200)
    return HostedRun(
        program,
        world,
        env,
        NsClock(env),
        duration_ns=scene.run.duration_ns,
        warm_up_ns=scene.run.warm_up_ns,
        **more,
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=10, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_nobody_else_is_there_or_looks_on(mechanism: str, data: st.DataObject) -> None:
    scene = data.draw(scenes(mechanism))
    pauses_ns = data.draw(st.lists(st.integers(0, 9_000), max_size=20))
    env = simpy.Environment(initial_time=START_NS)
    run = hosted(scene, scene.trace, env)

    def bystander() -> Generator[simpy.Event, None, None]:
        for pause_ns in pauses_ns:
            yield env.timeout(pause_ns)

    if not scene.run.program.busy and mechanism not in ASKING:
        env.process(bystander())
    env.run()
    assert run.outcome().same_as(on_reference(scene)[0])


class _Visitor:
    """A process that does what a client of a trace does: connect, ask, think, ask ..."""

    def __init__(self, run: HostedRun, trace: Trace, row: int) -> None:
        self.client = LedClient(run, self)
        self.n_left = int(trace.requests[row])
        self.think_ns = int(trace.think_ns[row])
        self.sizes = int(trace.request_bytes[row]), int(trace.reply_bytes[row])
        self.due_ns = int(trace.at_ns[row])  # of the first request: when it wants to connect

    def ask(self) -> None:
        self.n_left -= 1
        self.client.ask(*self.sizes, due_ns=self.due_ns, deadline_ns=NONE, is_last=self.n_left == 0)

    def on_connected(self) -> None:
        self.ask()

    def on_reply(self, read_ns: int) -> None:
        if self.n_left > 0:
            env, clock = self.client.run.host, self.client.run.clock
            self.due_ns = read_ns + self.think_ns
            timer = env.timeout(clock.delay(self.due_ns))
            timer.callbacks.append(lambda _: self.ask())

    def on_failed(self, why: int) -> None:
        raise AssertionError(Status(why))


NOBODY = comes_at(0)


def led_outcome(scene: Scene) -> Outcome:
    """Return the outcome of *scene* where processes are all of its clients."""
    trace, env = scene.trace, simpy.Environment(initial_time=START_NS)
    run = hosted(scene, NOBODY, env)
    run.world.next_row = run.world.end_row  # nobody comes of the trace

    def visit(row: int) -> Generator[simpy.Event, None, None]:
        yield env.timeout(int(trace.at_ns[row]))
        _Visitor(run, trace, row).client.connect(NONE)

    for row in range(len(trace)):
        env.process(visit(row))
    env.run()
    return run.outcome()


@pytest.mark.parametrize("mechanism", ["epoll_level", "poll", "blocking", "io_uring", "rt_signals"])
@pytest.mark.parametrize("closing", Closing)
@settings(max_examples=5, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    gaps_ns=st.lists(st.integers(200, 20_000), min_size=1, max_size=25),
    n_requests=st.integers(1, 3),
    reply_bytes=st.sampled_from([64, 20_000]),
    closes_first=st.booleans(),
)
def test_a_process_that_does_what_clients_do_is_served_as_they_are(  # noqa: PLR0917
    mechanism: str,
    closing: Closing,
    gaps_ns: list[int],
    n_requests: int,
    reply_bytes: int,
    closes_first: bool,
) -> None:
    trace = comes_at(
        *np.cumsum(gaps_ns).tolist(), requests=n_requests, reply_bytes=reply_bytes, think_ns=313
    )
    run = RunSettings(
        **on_server(closes_first=closes_first, workers=3 if mechanism == "blocking" else 1),
        client=ClientSettings(closing=int(closing)),
        duration_ns=20_000_000,
    )
    scene = Scene(mechanism, trace, run, BUSY_CLIENT)
    expected, _ = on_reference(scene)
    assume((expected.status == Status.REPLIED).all())
    outcome = led_outcome(scene)
    for name in ("intended_ns", "started_ns", "connected_ns", "done_ns", "status", "counts"):
        assert np.array_equal(getattr(outcome, name), getattr(expected, name)), name
    assert np.array_equal(outcome.reply_ns, expected.reply_ns)
    assert np.array_equal(outcome.due_ns, expected.due_ns)
    assert np.array_equal(outcome.cpu_ledger_ns, expected.cpu_ledger_ns)


def test_a_closed_loop_has_as_many_connections_as_it_needs() -> None:
    run = RunSettings(duration_ns=3_000_000, client=ClientSettings(timeout_ns=100_000))
    long = Scene("epoll_level", closed_loop(users=5, connections=5_000, think_ns=900), run)
    expected, _ = on_reference(long)
    env = simpy.Environment(initial_time=START_NS)
    few = closed_loop(users=5, connections=20, think_ns=900)
    asked = []

    def refill(n: int) -> Trace:
        asked.append(n)
        return closed_loop(users=5, connections=n, think_ns=900)

    hosting = hosted(long, few, env, refill=refill)
    env.run()
    outcome = hosting.outcome()
    assert asked[:3] == [40, 80, 160]
    assert 40 < outcome.intended_ns.size < 5_000
    assert np.array_equal(outcome.done_ns, expected.done_ns)
    assert np.array_equal(outcome.reply_ns, expected.reply_ns)
    assert np.array_equal(outcome.counts, expected.counts)
