"""What happens at one nanosecond, in the order that `occurrence` states: one tie a test."""

from __future__ import annotations

import numpy as np
import pytest
from tests.served import on_server
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import ClientCosts, Costs
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.settings import RunSettings

RUN = RunSettings(network=NetworkSettings(delay_ns=2_000), duration_ns=100_000, sample_every_ns=0)


def run_of(trace: Trace, settings: RunSettings, costs: Costs) -> Outcome:
    return simulate("epoll_level", trace, costs, settings, engine="reference")


@pytest.mark.parametrize(
    ("later_ns", "status"), [(-1, Status.TIMEOUT), (0, Status.REPLIED), (1, Status.REPLIED)]
)
def test_a_reply_at_the_very_time_out_of_its_client_is_a_reply(
    later_ns: int, status: Status
) -> None:
    # A client that pays for connect() has occurrences of its own for replies, receiving is free.
    costs = toy_costs("epoll_level", ClientCosts(10, 0, 0, 0))
    patient = run_of(arrivals(10_000), RUN, costs)
    patience_ns = int(patient.done_ns[0]) - 10_000 + later_ns
    impatient = RUN._replace(client=ClientSettings(timeout_ns=patience_ns))
    assert run_of(arrivals(10_000), impatient, costs).status.tolist() == [status]


def test_a_request_comes_before_the_reset_of_another_client() -> None:
    """The first asks again when the reset of the second arrives: the batch has it first."""
    server = on_server(closes_first=False)

    def trace(think_ns: int) -> Trace:
        n_requests, at_ns = np.array([2, 1]), np.array([10_000, 20_000])
        think = np.array([think_ns, 0])
        return Trace("open", 0, at_ns, n_requests, np.array([64, 64]), np.array([128, 128]), think)

    settings = RUN._replace(**server)
    _, apart = timeline("epoll_level", trace(60_000), settings)
    tie_ns = int(apart.done_ns[1]) - int(apart.reply_ns[0])
    steps, outcome = timeline("epoll_level", trace(tie_ns), settings)
    wakes_ns = [begin for begin, _, name in steps if name == "WAKE"]
    arrive_ns = int(outcome.reply_ns[0]) + tie_ns + 2_000
    batch = [name for begin, _, name in steps if begin > min(w for w in wakes_ns if w > arrive_ns)]
    assert batch[:7] == ["WAIT", "READ", "USER", "WRITE", "READ", "UNWATCH", "CLOSE"]


@pytest.mark.parametrize(("later_ns", "n_before"), [(-1, 0), (0, 1), (1, 1)])
def test_a_packet_at_the_beginning_of_the_window_is_before_it(later_ns: int, n_before: int) -> None:
    # The SYN arrives at 12,000; the window begins behind all that happens at that nanosecond.
    begins = RUN._replace(warm_up_ns=12_000 + later_ns)
    outcome = run_of(arrivals(10_000), begins, toy_costs("epoll_level"))
    assert outcome.counts_mark[Count.PACKETS] == n_before
