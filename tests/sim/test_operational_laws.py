"""The laws of operational analysis, exact on every run: Little's law and the utilisation law.

Source: Denning and Buzen 1978, "The operational analysis of queueing network models".
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scenes import Scene, scenes, traces
from tests.toy import CALL, INTERRUPT, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.fates import Fate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace, closed_loop
from dispatchsim.sim.state.client_settings import Closing, NetworkSettings
from dispatchsim.sim.state.costs import NO_CLIENT
from dispatchsim.sim.state.kinds import NONE, Activity, Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import SECOND_NS
from dispatchsim.sim.state.world import World

_N_OPEN: Any = World.__dict__["n_open"]


class Change(NamedTuple):
    """So many clients have a connection from now on."""

    at_ns: int
    n_open: int


class WatchedWorld(World):
    """A world that remembers when its clients opened and left connections."""

    __slots__ = ()
    changes: list[Change]

    @property
    def n_open(self) -> int:
        """Return how many connections the clients have now."""
        return int(_N_OPEN.__get__(self))

    @n_open.setter
    def n_open(self, value: int) -> None:
        _N_OPEN.__set__(self, value)
        type(self).changes.append(Change(self.now_ns, value))


def watched(scene: Scene) -> tuple[Outcome, list[Change]]:
    """Return the outcome of *scene*, and what its clients counted."""
    WatchedWorld.changes = [Change(0, 0)]

    def watch(_: object, world: World) -> None:
        world.__class__ = WatchedWorld

    outcome = simulate(
        scene.mechanism, scene.trace, scene.costs, scene.run, engine="reference", extend=watch
    )
    return outcome, [*WatchedWorld.changes, Change(scene.run.duration_ns, 0)]


@pytest.mark.parametrize("mechanism", ["epoll_level", "select", "rt_signals"])
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_littles_law_holds_to_the_nanosecond(mechanism: str, data: st.DataObject) -> None:
    scene = data.draw(scenes(mechanism))
    # Clients without a cost, but with a calendar: they open and leave when they say so.
    # A client that waits for the server's FIN keeps its descriptor longer than its request lasts.
    client = scene.run.client._replace(
        fd_limit=min(scene.run.client.fd_limit, 20), retries=0, closing=int(Closing.RESET)
    )
    trace = closed_loop(users=25, connections=60) if len(scene.trace) <= 20 else scene.trace
    run = scene.run._replace(client=client)
    scene = scene._replace(run=run, client=NO_CLIENT, trace=trace)
    outcome, changes = watched(scene)
    integral = sum(one.n_open * (next_one.at_ns - one.at_ns) for one, next_one in pairwise(changes))
    opened = outcome.fates() != Fate.DESCRIPTORS
    until_ns = outcome.done_ns.copy()
    until_ns[until_ns == NONE] = outcome.duration_ns
    assert integral == (until_ns - outcome.started_ns)[opened].sum()
    assert integral > 0


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(traces(), st.sampled_from([0, 50, 20_000]))
def test_busy_time_is_completions_times_their_cost(trace: Trace, delay_ns: int) -> None:
    outcome = simulate(
        "epoll_level",
        trace,
        toy_costs("epoll_level"),
        RunSettings(network=NetworkSettings(delay_ns), duration_ns=10 * SECOND_NS),
        engine="reference",
    )
    assert (outcome.fates() == Fate.REPLIED).all()
    counts, ledger_ns = outcome.counts, outcome.ledger_ns
    costs = toy_costs("epoll_level")
    n_requests = int(trace.requests.sum())
    calls_ns = {
        Activity.USER: n_requests * costs.application.request_ns,
        Activity.READ: counts[Count.READS] * CALL.read_ns
        + counts[Count.READ_AGAIN] * CALL.read_again_ns,
        Activity.WRITE: counts[Count.WRITES] * CALL.write_ns,
        Activity.CLOSE: counts[Count.CLOSES] * CALL.close_ns,
        Activity.ACCEPT: counts[Count.ACCEPTS] * CALL.accept_ns
        + counts[Count.ACCEPT_AGAIN] * CALL.accept_again_ns,
    }
    for activity, expected_ns in calls_ns.items():
        assert ledger_ns[activity] == expected_ns, activity.name
    packets_ns = (
        counts[Count.INTERRUPTS] * INTERRUPT.entry_ns
        + len(trace) * (INTERRUPT.syn_ns + INTERRUPT.ack_ns + INTERRUPT.reset_ns)
        + n_requests * INTERRUPT.data_ns
    )
    stolen_ns = ledger_ns[Activity.INTERRUPT] + ledger_ns[Activity.INTERRUPT_IDLE]
    assert stolen_ns == packets_ns
    assert counts[Count.CLOSES] == len(trace)
    assert counts[Count.REPLIES] == n_requests
