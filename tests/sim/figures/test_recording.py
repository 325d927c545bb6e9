"""A recording tiles the time of each CPU, agrees with the ledger, and changes nothing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scenes import Scene, comes_at, scenes
from tests.toy import MECHANISM

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.recording import Recorder
from dispatchsim.sim.state.kinds import NONE, Activity, Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import World

_AMPLE = 10**6
_IN_INTERRUPT = (Activity.INTERRUPT, Activity.INTERRUPT_IDLE, Activity.INTERRUPT_OTHER)


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


def check_tiling(recorder: Recorder, cpus: int, begin_ns: int, end_ns: int) -> None:
    """Check that the spans of each CPU follow each other, from one end to the other."""
    for cpu in range(cpus):
        spans = [span for span in recorder.spans if span.cpu == cpu]
        assert spans[0].begin_ns == begin_ns
        assert spans[-1].end_ns == end_ns
        assert all(a.end_ns == b.begin_ns for a, b in pairwise(spans))
        assert all(span.begin_ns < span.end_ns for span in spans)


@pytest.mark.parametrize("mechanism", ["epoll_level", "poll", "rt_signals", "blocking"])
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
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
    check_tiling(recorder, scene.run.machine.cpus, 0, duration_ns)
    packets = sum(s.found for s in recorder.spans if s.activity in _IN_INTERRUPT)
    assert packets <= outcome.counts[Count.PACKETS]


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(scenes("epoll_level"), st.integers(0, 40_000), st.integers(1, 10_000))
def test_a_window_is_a_part_of_the_whole(scene: Scene, begin_ns: int, length_ns: int) -> None:
    scene, end_ns = short(scene), begin_ns + length_ns
    whole, _ = recorded(scene, 0, scene.run.duration_ns)
    part, _ = recorded(scene, begin_ns, end_ns)
    check_tiling(part, scene.run.machine.cpus, begin_ns, end_ns)
    clipped = [
        (max(s.begin_ns, begin_ns), min(s.end_ns, end_ns), s.cpu, s.thread, s.activity)
        for s in whole.spans
        if s.begin_ns < end_ns and s.end_ns > begin_ns
    ]
    assert sorted(span[:5] for span in part.spans) == sorted(clipped)
    assert part.events == [e for e in whole.events if begin_ns <= e.at_ns < end_ns]
    within = [row for row in whole.lengths if begin_ns < row.at_ns < end_ns]
    assert [row for row in part.lengths if row.at_ns > begin_ns] == within
    before = [row for row in whole.lengths if row.at_ns <= begin_ns]
    assert part.lengths[0] == (begin_ns, before[-1].lengths)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(scenes("epoll_level"))
def test_no_thread_is_on_two_cpus_and_no_queue_is_negative(scene: Scene) -> None:
    recorder, _ = recorded(short(scene), 0, 50_000)
    threads = {span.thread for span in recorder.spans if span.step != NONE}
    for thread in threads:
        own = sorted(s for s in recorder.spans if s.thread == thread and s.step != NONE)
        assert all(a.end_ns <= b.begin_ns for a, b in pairwise(own))
    assert all(length >= 0 for row in recorder.lengths for length in row.lengths)
    assert all(a.at_ns < b.at_ns for a, b in pairwise(recorder.lengths))


@pytest.mark.parametrize("mechanism", MECHANISM)
@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_recorded_run_is_the_run(mechanism: str, data: st.DataObject) -> None:
    scene = short(data.draw(scenes(mechanism)))
    _, outcome = recorded(scene, 10_000, scene.run.duration_ns)
    plain = simulate(scene.mechanism, scene.trace, scene.costs, scene.run, engine="reference")
    assert plain.same_as(outcome)


def test_a_full_recording_is_whole_until_it_says() -> None:
    scene = Scene("epoll_level", comes_at(*range(0, 40_000, 900)), RunSettings(duration_ns=50_000))
    recorder = Recorder(0, 50_000, limit=30)
    outcome = simulate(scene.mechanism, scene.trace, scene.costs, scene.run, observe=recorder)
    assert 0 < recorder.whole_until_ns < 50_000
    check_tiling(recorder, 1, 0, recorder.whole_until_ns)
    assert outcome.counts[Count.REPLIES] > 0


def test_what_an_interrupt_took_is_told_apart_from_the_step_it_cut() -> None:
    scene = Scene("epoll_level", comes_at(0, 1_400), RunSettings(duration_ns=9_000))
    recorder, _ = recorded(scene, 0, 9_000)
    told = [(s.begin_ns, s.end_ns, Activity(s.activity).name, s.found) for s in recorder.spans[:12]]
    assert told == [
        (0, 430, "INTERRUPT", 3),  # 100 + SYN 200, ACK 50, request 80: stolen from the first wait
        (430, 500, "WAIT", 1),
        (500, 530, "WAIT", 0),  # one event
        (530, 830, "ACCEPT", 1),
        (830, 940, "WATCH", 0),
        (940, 1_040, "ACCEPT", 0),  # EAGAIN
        (1_040, 1_110, "WAIT", 1),
        (1_110, 1_160, "WAIT", 0),  # an event, and the listener looked at in vain: 30 + 20
        (1_160, 1_360, "READ", 1),
        (1_360, 1_400, "USER", 0),
        (1_400, 1_830, "INTERRUPT", 3),
        (1_830, 1_940, "USER", 0),  # 150 in all
    ]
    assert recorder.spans[9].step == recorder.spans[11].step
    assert [span.fd for span in recorder.spans[8:12]] == [5, 5, NONE, 5]


@pytest.mark.parametrize(("window", "limit"), [((5, 5), 1), ((-1, 5), 1), ((0, 5), 0)])
def test_an_empty_window_or_recording_is_refused(window: tuple[int, int], limit: int) -> None:
    with pytest.raises(ValueError, match=r"at least 1, got|needs 0 <= begin"):
        Recorder(*window, limit=limit)
