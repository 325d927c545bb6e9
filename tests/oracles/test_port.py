"""A completion port, stepped by hand: which thread has which packet."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.port import NaivePort
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.completions.completion_port import (
    COMPLETION_PORT,
    Port,
    has_packet,
    post,
    sleep_in_call,
)
from dispatchsim.models.simulate import prepare_world
from dispatchsim.sim.kernel.interest_set import add_interest
from dispatchsim.sim.state.kinds import SLEEP, WRITABLE
from dispatchsim.sim.state.settings import RunSettings

N_THREADS = 4


class Threads:
    """The waits of the threads of the model, each a generator that is stepped by hand."""

    def __init__(self, cpus: int, concurrency: int) -> None:
        server = on_server(workers=N_THREADS, cpus=cpus, concurrent_threads=concurrency)
        costs = toy_costs("completion_port")
        self.world = prepare_world(
            "completion_port", arrivals(*[1] * 10), costs, RunSettings(**server)
        )
        self.interests = self.world.sets[0]
        self.port: Port = self.interests.own
        self.calls: dict[int, Iterator[int]] = {}
        for number in range(N_THREADS):
            add_interest(self.world, self.interests, number, 0)  # what each may sleep over
            self.comes_back(number)
        self.world.now_ns = 1

    def _goes_on(self, number: int) -> None:
        for step in self.calls[number]:
            if step == SLEEP:
                return

    def comes_back(self, number: int) -> None:
        self.calls[number] = COMPLETION_PORT.wait(self.world, self.world.workers[number])
        self._goes_on(number)

    def blocks(self, number: int) -> None:
        self.world.state[number] = 0
        worker = self.world.workers[number]
        self.calls[number] = sleep_in_call(self.world, worker, number, WRITABLE)
        self._goes_on(number)

    def goes_on(self, number: int) -> None:
        self.world.state[number] = WRITABLE
        self.world.connection_of[number] = 0
        COMPLETION_PORT.notify(self.world, number)

    def posts(self, packet: int) -> None:
        post(self.world, self.interests, packet)

    def hand(self) -> dict[int, int]:
        return {w.number: w.event_fd[0] for w in self.world.workers if has_packet(w)}

    def waiting(self) -> list[int]:
        return list(self.port.waiting[: self.port.n_waiting])


ACTS = st.tuples(
    st.sampled_from(("posts", "posts", "comes_back", "comes_back", "blocks", "goes_on")),
    st.integers(0, N_THREADS - 1),
)


@settings(max_examples=150)
@given(cpus=st.integers(1, 3), concurrency=st.integers(1, 3), acts=st.lists(ACTS, max_size=25))
def test_a_packet_goes_to_the_thread_that_the_port_would_choose(
    cpus: int, concurrency: int, acts: list[tuple[str, int]]
) -> None:
    oracle, threads = NaivePort(N_THREADS, cpus, concurrency), Threads(cpus, concurrency)
    n_posted = 0
    for what, number in acts:
        is_away = number in oracle.hand and number not in oracle.running
        may = {
            "posts": True,
            "comes_back": number in oracle.running,
            "blocks": number in oracle.running,
            "goes_on": is_away,
        }
        if not may[what]:
            continue
        subject = 10 + n_posted if what == "posts" else number
        n_posted += what == "posts"
        getattr(oracle, what)(subject)
        getattr(threads, what)(subject)
        assert threads.hand() == oracle.hand
        assert threads.waiting() == oracle.waiting
        assert threads.port.n_running == len(oracle.running)
