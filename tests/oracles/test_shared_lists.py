"""Several threads on one set, stepped by hand: which is woken, and which has which events."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.shared_list import SharedList
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.epoll.epoll_level import EPOLL_LEVEL
from dispatchsim.models.simulate import prepare_world
from dispatchsim.sim.kernel.interest_set import add_interest
from dispatchsim.sim.state.event_calendar import post
from dispatchsim.sim.state.kinds import READABLE, SLEEP
from dispatchsim.sim.state.program_settings import Sharing
from dispatchsim.sim.state.settings import RunSettings

N_FDS, N_THREADS = 4, 3


class Threads:
    """The waits of several threads of the model, each a generator that is stepped by hand."""

    def __init__(self, max_events: int) -> None:
        server = on_server(
            workers=N_THREADS, sharing=int(Sharing.READY_LIST), max_events=max_events
        )
        self.world = prepare_world(
            "epoll_level", arrivals(*[1] * N_FDS), toy_costs("epoll_level"), RunSettings(**server)
        )
        self.waits: dict[int, Iterator[int]] = {}
        for fd in range(N_FDS):
            add_interest(self.world, self.world.sets[0], fd, READABLE)
            self.world.connection_of[fd] = fd - 1  # the first is no connection's

    def arrives(self, fd: int) -> None:
        self.world.n_posted = 0
        post(self.world, fd, READABLE)
        EPOLL_LEVEL.notify(self.world, fd)

    def arms(self, fd: int) -> None:
        worker = self.world.workers[0]
        assert list(EPOLL_LEVEL.rewatch(self.world, worker, fd, READABLE)) == [40]

    def looks(self, number: int) -> list[int]:
        worker = self.world.workers[number]
        if number not in self.waits:
            self.waits[number] = EPOLL_LEVEL.wait(self.world, worker)
        for step in self.waits[number]:
            if step == SLEEP:
                return []
        del self.waits[number]
        return list(worker.event_fd[: worker.n_events])


ACTS = st.tuples(
    st.sampled_from(("arrives", "used_up", "arms", "looks", "looks", "looks")),
    st.integers(0, N_FDS - 1),
)


@settings(max_examples=150)
@given(max_events=st.integers(1, 3), acts=st.lists(ACTS, max_size=25))
def test_the_last_that_came_is_woken_first(max_events: int, acts: list[tuple[str, int]]) -> None:
    oracle, threads = SharedList(N_FDS, N_THREADS, max_events), Threads(max_events)
    for what, number in acts:
        if what == "looks":
            thread = number % N_THREADS
            if thread not in oracle.queue:
                oracle.looks(thread)
                assert threads.looks(thread) == oracle.returned[thread]
        elif what == "used_up":
            oracle.used_up(number)
            threads.world.state[number] = 0
        else:
            getattr(oracle, what)(number)
            getattr(threads, what)(number)
        waiters = threads.world.sets[0]
        assert list(waiters.waiters[: waiters.n_waiting]) == oracle.queue
