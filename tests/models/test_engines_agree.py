"""One source, two clocks: SimPy and compiled code agree in every entry of the outcome."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.laws import check_all
from tests.models.corpus import CORPUS
from tests.scenes import BUSY_CLIENT, Scene, comes_at, on_fast, on_reference, scenes
from tests.served import on_server
from tests.toy import LENGTHEN_INTERRUPTS, MECHANISMS, THREADED, VARIANTS

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.load.workload import open_loop
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.family_settings import Threads
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.program_settings import Wakes
from dispatchsim.sim.state.settings import RunSettings


# `make equality` draws thousands.
@pytest.mark.parametrize("mechanism", [*MECHANISMS, *VARIANTS, *THREADED])
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_engines_agree_to_the_nanosecond(mechanism: str, data: st.DataObject) -> None:
    scene = data.draw(scenes(mechanism, keeps=True, classes=True))
    reference, world = on_reference(scene)
    check_all(scene, reference, world)
    assert reference.same_as(on_fast(scene))


@pytest.mark.parametrize("name", CORPUS)
def test_engines_agree_on_what_once_went_wrong_or_is_telling(name: str) -> None:
    scene, expected = CORPUS[name]
    reference, world = on_reference(scene)
    check_all(scene, reference, world)
    for count, value in expected.items():
        assert reference.counts[count] == value, Count(count).name
    assert reference.same_as(on_fast(scene))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("workers", [1, 3])
def test_engines_agree_on_a_busy_server(mechanism: str, workers: int) -> None:
    trace = open_loop(rate_per_s=250_000, seconds=0.008, seed=5)
    run = RunSettings(
        **on_server(workers=workers, cpus=2),
        client=ClientSettings(idle=500),
        duration_ns=10_000_000,
        warm_up_ns=2_000_000,
    )
    scene = Scene(mechanism, trace, run)
    reference, world = on_reference(scene)
    check_all(scene, reference, world)
    assert reference.counts[Count.EVENTS] > 1_000
    assert reference.ledger_ns[Activity.INTERRUPT] > 0
    assert reference.same_as(on_fast(scene))


@pytest.mark.parametrize("threads", Threads)
@pytest.mark.parametrize("wakes", [Wakes.USUAL, Wakes.ALL])
def test_engines_agree_on_many_threads(threads: Threads, wakes: Wakes) -> None:
    trace = open_loop(rate_per_s=250_000, seconds=0.02, seed=5, requests=2, think_ns=20_000)
    run = RunSettings(
        **on_server(workers=520, cpus=2, threads=int(threads), wakes=int(wakes)),
        client=ClientSettings(idle=500),
        duration_ns=25_000_000,
        warm_up_ns=5_000_000,
    )
    scene = Scene("blocking", trace, run)
    reference, world = on_reference(scene)
    check_all(scene, reference, world)
    assert reference.counts[Count.REPLIES] > 1_000
    assert reference.same_as(on_fast(scene))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_calendar_grows_when_steps_fill_it(workers: int) -> None:
    # Every answer plans a request far off, and nothing is due between the steps that answer.
    trace = comes_at(*[0] * 3_000, requests=2, think_ns=1_000_000_000)
    run = RunSettings(**on_server(workers=workers), sample_every_ns=0)
    scene = Scene("epoll_level", trace, run)
    reference, world = on_reference(scene)
    check_all(scene, reference, world)
    assert reference.same_as(on_fast(scene))


# A signal, or an event for a ring, lengthens the interrupt that sends it: where packets are handled
# one by one, those that are already on their way do not wait for that.
@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if m not in LENGTHEN_INTERRUPTS])
def test_a_cpu_that_nobody_uses_changes_nothing(mechanism: str) -> None:
    # Clients that cost something and are far away: the packets of a handshake come one by one.
    # (Where they are handled in one go, others may come in between on a machine of several CPUs.)
    trace = open_loop(rate_per_s=150_000, seconds=0.01, seed=6, requests=2)
    run = RunSettings(duration_ns=20_000_000, warm_up_ns=5_000_000)
    run = run._replace(network=run.network._replace(delay_ns=50_000))
    scene = Scene(mechanism, trace, run, BUSY_CLIENT)
    alone, _ = on_reference(scene)
    beside, _ = on_reference(scene._replace(run=run._replace(**on_server(cpus=2, interrupt_cpu=0))))
    assert (alone.done_ns == beside.done_ns).all()
    assert (alone.counts == beside.counts).all()
    assert (alone.cpu_ledger_ns[0] == beside.cpu_ledger_ns[0]).all()
    assert beside.cpu_ledger_ns[1, Activity.IDLE] == run.duration_ns


def test_the_outcome_does_not_depend_on_how_often_one_looks() -> None:
    scene = Scene("epoll_level", open_loop(rate_per_s=100_000, seconds=0.01, seed=6))
    seen: list[int] = []
    looked = simulate(
        "epoll_level", scene.trace, scene.costs, scene.run, engine="fast", progress=seen.append
    )
    assert seen
    assert looked.same_as(on_fast(scene))
