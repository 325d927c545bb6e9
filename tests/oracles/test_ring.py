"""Calls of io_uring, one after the other, beside the kernel's: completions, order and time."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.driving import NO_CALLS
from tests.oracles.machine import IN, OUT, Act, Arrival, Done, Story
from tests.oracles.ring import ACCEPTED, COUNTED, END, NO_FD, REQUEST, RESET, Ring
from tests.toy import arrivals

from dispatchsim.models.catalogue import MECHANISMS
from dispatchsim.models.completions.io_uring import IoUringCosts, submit
from dispatchsim.models.remembering.overload import control
from dispatchsim.models.simulate import prepare_world
from dispatchsim.sim.engine.reference import ReferenceRun
from dispatchsim.sim.kernel.sockets import reply_unsent
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.costs import NO_CLIENT, NO_INTERRUPT, ApplicationCosts, Costs
from dispatchsim.sim.state.event_calendar import post
from dispatchsim.sim.state.kinds import NONE, READABLE, Count, Stage
from dispatchsim.sim.state.mechanism import Program
from dispatchsim.sim.state.settings import RunSettings, having
from dispatchsim.sim.state.world import Worker, World
from dispatchsim.sim.tcp.closing import gone_handled
from dispatchsim.sim.tcp.listen_queue import enters_queue
from dispatchsim.sim.tcp.windows import acked_handled

IO_URING = MECHANISMS["io_uring"]
KIB = 1_024
OF_RING = IoUringCosts._fields
OF_CALLS = (
    *("accept_ns", "accept_again_ns", "read_ns", "read_again_ns"),
    *("write_ns", "write_kib_ns", "close_ns", "crossing_ns"),
)


class DrivenRing:
    """A story on the model, whose program submits what the oracle's does."""

    def __init__(self, story: Story) -> None:
        self.story, self.done = story, list[Done]()
        option, given_ns = story.options, story.costs
        of_calls: dict[str, Any] = {name: given_ns[name] for name in OF_CALLS}
        costs = Costs(
            NO_INTERRUPT._replace(sleep_ns=story.sleep_ns, wake_ns=story.wake_ns),
            NO_CALLS._replace(**of_calls),
            ApplicationCosts(0),
            NO_CLIENT,
            IoUringCosts(*(given_ns[name] for name in OF_RING)),
        )
        run = having(
            RunSettings(duration_ns=story.end_ns, sample_every_ns=0),
            max_events=story.max_events,
            send_buffer_bytes=option["buffer_kib"] * KIB,
            due_at_once=option["due_at_once"],
            accept_looks_again=bool(option["looks_again"]),
            fd_limit=5 + option["open_max"],  # standard files, the ring, the listener
        )._replace(network=NetworkSettings(delay_ns=10**12))
        nobody = [10**15] * (len(story.states) - 1)
        trace = arrivals(
            *nobody, requests=option["requests"], reply_bytes=option["reply_kib"] * KIB
        )
        program = Program(self._play, IO_URING, control)
        self.world = prepare_world(program, trace, costs, run)
        self.n_came = 0
        self._run = ReferenceRun(
            program, self.world, duration_ns=story.end_ns, extend=self._bring_arrivals
        )

    def run(self) -> list[Done]:
        self._run.run()
        return self.done

    def _play(self, world: World, worker: Worker) -> Iterator[int]:
        for act in self.story.acts:
            yield from IO_URING.wait(world, worker)
            fds = worker.event_fd[: worker.n_events]
            events = tuple(self._event(world, worker, fd) for fd in fds)
            counts = {name: int(world.counts[Count[name.upper()]]) for name in COUNTED}
            self.done.append(Done(act.what, world.now_ns, events, counts))
            for fd, (_, reports) in zip(fds, events, strict=True):
                if reports == REQUEST and act.ns:
                    yield act.ns
                submit(worker, fd)

    def _event(self, world: World, worker: Worker, fd: int) -> tuple[int, int]:
        if fd == worker.listener_fd:
            return 0, NO_FD
        number = world.connection_of[fd] + 1
        if world.watched_by[fd] == NONE:
            return number, ACCEPTED
        return number, REQUEST if reply_unsent(world, fd) else END

    def _bring_arrivals(self, env: simpy.Environment, world: World) -> None:
        def bring() -> Generator[simpy.Event, Any, None]:
            for at_ns, number, bits in self.story.arrivals:
                if at_ns > env.now:
                    yield env.timeout(at_ns - int(env.now))
                world.now_ns, world.waker, world.n_posted = at_ns, 0, 0
                self._arrive(world, number, bits)
                self._run.tell()

        env.process(bring())

    def _arrive(self, world: World, number: int, bits: int) -> None:
        c = number - 1
        if number == 0:
            if self.n_came < len(self.story.states) - 1:
                world.stage[self.n_came] = Stage.BY_COOKIE
                enters_queue(world, self.n_came)
                self.n_came += 1
        elif c < self.n_came and world.stage[c] != Stage.CLOSED and not world.ended[c]:
            if bits == OUT:
                acked_handled(world, c)
            elif bits == RESET:
                gone_handled(world, c)
            elif not world.pending[c] and not world.unsent[c]:
                self._ask(world, c)

    def _ask(self, world: World, c: int) -> None:
        if world.answered[c] < world.requests[c]:
            world.pending[c] = 1
            world.n_unread += 1
            if world.stage[c] == Stage.ACCEPTED:
                post(world, world.fd_of[c], READABLE)


GAPS_NS = st.sampled_from((0, 1, 2, 3, 5, 8, 13, 30, 90))
SHORT_NS = st.sampled_from((0, 1, 4))
KINDS = st.sampled_from((IN, IN, OUT, RESET))
COSTS_NS = st.sampled_from((1, 0, 2, 3, 5, 8, 13))
N_COSTS = len(OF_RING) + len(OF_CALLS)


@st.composite
def ring_stories(draw: st.DrawFn) -> Story:
    """Draw connections that come, ask, have room again and are reset; and calls of the ring."""
    n = draw(st.integers(1, 7))
    asking = draw(st.integers(0, n))  # connections that come first, and ask together, twice
    pause_ns = draw(st.sampled_from((20, 40, 80, 160)))
    first = [(draw(SHORT_NS), number, IN) for number in (*[0] * asking, *range(1, asking + 1))]
    again = [(draw(SHORT_NS), number, IN) for number in range(1, asking + 1)]
    others = draw(st.lists(st.tuples(GAPS_NS, st.integers(0, n + 1), KINDS), max_size=25))
    arrived, at_ns = list[Arrival](), 1
    for gap_ns, number, bits in (*first, (pause_ns, 0, IN), *again, *others):
        at_ns += gap_ns
        arrived.append(Arrival(at_ns, number % (n + 1), bits))
    costs = draw(st.lists(COSTS_NS, min_size=N_COSTS, max_size=N_COSTS))
    options = {
        "requests": draw(st.integers(1, 3)),
        "reply_kib": draw(st.sampled_from((1, 5))),
        "buffer_kib": 2,
        "open_max": draw(st.sampled_from((20, 3))),
        "due_at_once": draw(st.sampled_from((20, 1, 2, 0))),
        "looks_again": draw(st.sampled_from((0, 1))),
    }
    return Story(
        (0,) * (n + 1),
        tuple(Act("wait", ns=draw(COSTS_NS)) for _ in range(draw(st.integers(3, 25)))),
        tuple(arrived),
        draw(st.sampled_from((1_024, 1, 2, 3))),
        dict(zip((*OF_RING, *OF_CALLS), costs, strict=True)),
        draw(COSTS_NS),
        draw(COSTS_NS),
        options,
        5_000,
    )


@settings(max_examples=300)
@given(story=ring_stories())
def test_a_call_of_the_ring_completes_what_the_kernel_would(story: Story) -> None:
    assert DrivenRing(story).run() == Ring(story).run()
