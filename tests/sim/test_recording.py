"""A recording tiles the time of each CPU, agrees with the ledger, and changes nothing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scenes import Scene, scenes

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.outcome import Outcome
from dispatchsim.sim.recording import Recorder
from dispatchsim.sim.world import World

_AMPLE = 10**6


def recorded(scene: Scene, begin_ns: int, end_ns: int) -> tuple[Recorder, Outcome]:
    """Return what was recorded of *scene*, and its outcome."""
    recorder = Recorder(begin_ns, end_ns, limit=_AMPLE)
    worlds: list[World] = []
    outcome = simulate(
        scene.mechanism,
        scene.trace,
        scene.costs,
        scene.run,
        extend=lambda _, world: worlds.append(world),
        observe=recorder,
    )
    recorder.finish(worlds[0])
    return recorder, outcome


def short(scene: Scene) -> Scene:
    """Return *scene*, but for no longer than a millisecond."""
    return scene._replace(run=scene.run._replace(duration_ns=50_000))


@pytest.mark.parametrize("mechanism", ["epoll_level", "poll", "rt_signals"])
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_spans_tile_each_cpu_and_add_up_to_the_ledger(mechanism: str, data: st.DataObject) -> None:
    scene = short(data.draw(scenes(mechanism)))
    duration_ns = scene.run.duration_ns
    recorder, outcome = recorded(scene, 0, duration_ns)
    assert recorder.whole_until_ns == duration_ns
    summed_ns = np.zeros_like(outcome.cpu_ledger_ns)
    for span in recorder.spans:
        summed_ns[span.cpu, span.activity] += span.end_ns - span.begin_ns
    assert (summed_ns == outcome.cpu_ledger_ns).all()
    for cpu in range(scene.run.server.cpus):
        spans = [span for span in recorder.spans if span.cpu == cpu]
        assert spans[0].begin_ns == 0
        assert spans[-1].end_ns == duration_ns
        assert all(a.end_ns == b.begin_ns for a, b in pairwise(spans))
    assert all(length >= 0 for row in recorder.lengths for length in row.lengths)


@pytest.mark.parametrize("mechanism", ["epoll_level", "poll", "rt_signals"])
@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_recorded_run_is_the_run(mechanism: str, data: st.DataObject) -> None:
    scene = short(data.draw(scenes(mechanism)))
    _, outcome = recorded(scene, 0, scene.run.duration_ns)
    plain = simulate(scene.mechanism, scene.trace, scene.costs, scene.run, engine="reference")
    assert plain.same_as(outcome)
