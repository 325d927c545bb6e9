"""Rules that releases of Linux do not share: which one holds, and its effect by hand."""

from __future__ import annotations

import pytest
from tests.served import on_server
from tests.steps import timelines
from tests.toy import arrivals

from dispatchsim.models.releases import CHANGES, Change, with_release
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.settings import FloodSettings, RunSettings, having


def of_release(release: str) -> RunSettings:
    """Return the settings of a run of a server with io_uring on *release*."""
    return with_release(RunSettings(), "io_uring", release)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.source)
def test_a_change_holds_from_its_release_on(change: Change) -> None:
    major, minor = change.release
    before = getattr(of_release(f"{major}.{minor - 1}.7"), change.record)._asdict()
    since = getattr(of_release(f"{major}.{minor}"), change.record)._asdict()
    now = getattr(RunSettings(), change.record)._asdict()
    for name, value in change.values.items():
        assert before[name] == value
        assert since[name] == now[name] != value


def test_times_of_the_scheduler_grow_with_the_logarithm_of_the_cpus() -> None:
    # kernel/sched/fair.c get_update_sysctl_factor(): 1 + ilog2(min(cpus, 8)).
    credits_ms = [
        with_release(having(RunSettings(), cpus=cpus), "poll", "6.1").kernel.credit_ns // 1_000_000
        for cpus in (1, 2, 3, 4, 8, 16)
    ]
    assert credits_ms == [3, 6, 6, 9, 12, 12]


def test_a_change_is_that_of_the_releases_in_which_it_was_read() -> None:
    assert of_release("2.6.39").kernel.credit_ns == 0  # others had other values, or no credit
    assert of_release("3.0").kernel.credit_ns == 3_000_000
    assert of_release("4.8").kernel.interrupts_beside  # as again since 6.5
    assert not of_release("4.9").kernel.interrupts_beside


def test_the_release_of_a_scenario_comes_before_that_of_its_profile() -> None:
    keys = {"server": {"mechanism": "poll"}, "load": {"loop": "closed", "users": 4}}
    of_profile = Scenario.model_validate(keys)
    own = Scenario.model_validate(keys | {"machine": {"kernel": "6.18"}})
    assert settings_of(of_profile, 0, 1, kernel="6.1.192").kernel.credit_ns == 3_000_000
    assert settings_of(own, 0, 1, kernel="6.1.192").kernel.credit_ns == 0


@pytest.mark.parametrize("release", ["six", "6", "", "6.1 or so\n"])
def test_what_is_no_release_is_refused(release: str) -> None:
    with pytest.raises(ValueError, match=r'must be a release of Linux such as "6[.]1", got "'):
        Scenario.model_validate({"machine": {"kernel": release}})


def test_before_linux_6_6_a_thread_that_wakes_up_waits_unless_the_other_has_had_a_granularity() -> (
    None
):
    # The process computes from 110 on. Packets of a connection take the CPU for 430 from 1000 after
    # its arrival on, as interrupts out of idleness do; here there is none, so from its arrival on.
    kernel = of_release("6.1").kernel
    now = on_server(busy_processes=1)
    old = now.but(granularity_ns=kernel.granularity_ns, credit_ns=kernel.credit_ns)
    soon, _ = timelines(arrivals(900_000), old, 5_000_000)
    late, _ = timelines(arrivals(2_000_000), old, 5_000_000)
    new, _ = timelines(arrivals(900_000), now, 5_000_000)
    assert new[0][2] == (900_430, 900_930, "WAKE")
    assert late[0][2] == (2_000_430, 2_000_930, "WAKE")  # it has had 1 ms less
    assert soon[0][2] == (4_000_000, 4_000_500, "WAKE")  # not so: it waits for the tick


def test_before_linux_6_5_packets_wait_for_their_thread_while_that_waits_for_the_cpu() -> None:
    # 640 of 1000 are handled until 9000 + 100 + 44800 = 53900. The process has the CPU until the
    # tick at 60000, and the thread has 360 then, 70 each. Since 6.5 the tick has a round handled.
    flood = FloodSettings(gap_ns=9_000, burst=1_000, is_poisson=False, until_ns=10_000)
    server = on_server(slice_ns=1_000, tick_ns=60_000, busy_processes=1, wake_preemption=False)
    old, run = server.but(interrupts_beside=False), RunSettings(flood=flood)
    steps, outcome = timelines(arrivals(200_000), old, 100_000, run=run)
    assert steps[3][0] == (110, 60_000, "OTHER")
    assert steps[1][0] == (60_000, 60_070, "KSOFTIRQD")
    assert steps[1][-1] == (85_130, 85_200, "KSOFTIRQD")
    assert outcome.counts[[Count.DATAGRAMS, Count.DEFERRED]].tolist() == [1_000, 360]
