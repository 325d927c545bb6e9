"""Threads that block, computed by hand, exact to the nanosecond; rows of the literature by name.

As in test_worker_timelines: on three CPUs packets go to CPU 2, which handles connection and request
of 10000 until 11430 and calls a thread elsewhere at 11350, which leaves idleness at 12350.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.served import on_server
from tests.steps import Step, timelines
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.simulate import prepare_world, simulate
from dispatchsim.sim.cpu.scheduling import begin_thread, boot
from dispatchsim.sim.figures.fates import Missing
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import Verdict, summarise
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.family_settings import Threads
from dispatchsim.sim.state.kinds import Activity, Count, Status
from dispatchsim.sim.state.program_settings import Sharing, Wakes
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS

ONE = arrivals(10_000)
THREE_CPUS = on_server(workers=2, cpus=3, interrupt_cpu=2)
MIB = 1 << 20


def outcome_with(
    *at_ns: int, idle: int = 0, idle_life_ns: int = 0, think_ns: int = 0, **server: Any
) -> Outcome:
    """Return the outcome of connections of two requests each, in 10 ms, on both engines."""
    run = RunSettings(
        **on_server(**server),
        client=ClientSettings(idle=idle, idle_life_ns=idle_life_ns),
        duration_ns=10 * MILLISECOND_NS,
        sample_every_ns=0,
    )
    trace = arrivals(*at_ns, requests=2, think_ns=think_ns)
    costs = toy_costs("blocking")
    outcome = simulate("blocking", trace, costs, run, engine="reference")
    assert simulate("blocking", trace, costs, run, engine="fast").same_as(outcome)
    return outcome


# -- a pool


def test_a_thread_sleeps_in_accept_and_in_read() -> None:
    run = RunSettings(duration_ns=40_000, sample_every_ns=0)
    steps, outcome = timeline("blocking", arrivals(10_000, requests=2, think_ns=5_000), run)
    assert steps == [
        (11_430, 11_930, "WAKE"),  # it has been in accept since before the run
        (11_930, 11_955, "ACCEPT"),  # off the wait queue, a second look (25)
        (11_955, 12_155, "ACCEPT"),  # the rest of 300, of which 100 are up to the first look
        (12_155, 12_355, "READ"),
        (12_355, 12_505, "USER"),
        (12_505, 12_905, "WRITE"),
        (12_905, 12_995, "READ"),  # nothing there yet (90)
        (12_995, 13_035, "SLEEP"),
        (19_085, 19_585, "WAKE"),  # sent at 17905: 1000 out of idleness, entry 100, request 80
        (19_585, 19_610, "READ"),
        (19_610, 19_720, "READ"),  # the rest of 200
        (19_720, 19_870, "USER"),
        (19_870, 20_270, "WRITE"),
        (20_270, 20_680, "CLOSE"),  # 250, and the reset: 160
        (20_680, 20_780, "ACCEPT"),
        (20_780, 20_820, "SLEEP"),
    ]
    assert outcome.reply_ns.tolist() == [12_905, 20_270]
    # No call asks for readiness, and none would have blocked.
    asked = [Count.WAITS, Count.EVENTS, Count.WATCHES, Count.ACCEPT_AGAIN, Count.READ_AGAIN]
    assert outcome.counts[asked].tolist() == [0] * 5


SERVES: list[Step] = [
    (12_350, 12_850, "WAKE"),
    (12_850, 12_875, "ACCEPT"),
    (12_875, 13_075, "ACCEPT"),
    (13_075, 13_275, "READ"),
    (13_275, 13_425, "USER"),
    (13_425, 13_825, "WRITE"),
    (13_825, 14_075, "CLOSE"),
    (14_075, 14_175, "ACCEPT"),
    (14_175, 14_215, "SLEEP"),
]


def test_cm01_43_the_kernel_wakes_one_that_sleeps_in_accept_or_the_whole_herd() -> None:
    one, _ = timelines(ONE, THREE_CPUS, mechanism="blocking")
    assert one == {0: SERVES, 1: []}
    all_wake = THREE_CPUS.but(wakes=int(Wakes.ALL))
    herd, outcome = timelines(ONE, all_wake, mechanism="blocking")
    assert herd[0] == SERVES
    assert herd[1] == [
        (12_350, 12_850, "WAKE"),
        (12_850, 12_875, "ACCEPT"),  # the other one has taken it
        (12_875, 12_915, "SLEEP"),
    ]
    assert outcome.worker_accepts.tolist() == [1, 0]


def test_the_thread_that_came_to_accept_first_is_the_first_to_be_woken() -> None:
    at = (10_000, 40_000, 70_000, 100_000, 130_000)
    server = THREE_CPUS.but(workers=3, cpus=4, interrupt_cpu=3)
    _, outcome = timelines(arrivals(*at), server, 160_000, "blocking")
    assert outcome.worker_accepts.tolist() == [2, 2, 1]


def test_a_write_sleeps_until_the_whole_reply_is_in_the_send_buffer() -> None:
    server = THREE_CPUS.but(workers=1, send_buffer_bytes=1_000)
    trace = arrivals(10_000, reply_bytes=2_500)
    steps, outcome = timelines(trace, server, 30_000, "blocking")
    assert steps[0][5:] == [
        (13_425, 13_825, "WRITE"),  # 1000 of 2500 bytes
        (13_825, 13_865, "SLEEP"),
        # The acknowledgement finds CPU 2 asleep: 13825 + 1000 + 100 + 50, and 1000 to CPU 0.
        (15_975, 16_475, "WAKE"),
        (16_475, 16_500, "WRITE"),  # 1000 more; a KiB costs nothing here
        (16_500, 16_540, "SLEEP"),
        (18_650, 19_150, "WAKE"),
        (19_150, 19_175, "WRITE"),
        (19_175, 19_425, "CLOSE"),
        (19_425, 19_525, "ACCEPT"),
        (19_525, 19_565, "SLEEP"),
    ]
    assert outcome.done_ns.tolist() == [19_175]
    assert outcome.counts[[Count.WRITES, Count.WRITE_SHORT, Count.REPLIES]].tolist() == [3, 2, 1]


def test_b19_16_threads_that_sleep_take_no_cpu_however_many_they_are() -> None:
    def busy_ns(idle: int) -> int:
        outcome = outcome_with(10_000, 500_000, idle=idle, workers=idle + 1)
        return int(outcome.ledger_ns.sum() - outcome.ledger_ns[Activity.IDLE])

    assert busy_ns(0) > 0
    assert [busy_ns(idle) - busy_ns(0) for idle in (1, 40, 400)] == [0, 0, 0]


def test_a_pool_in_the_hands_of_idle_connections_strands_all_others() -> None:
    held = outcome_with(10_000, 20_000, idle=3, workers=3)
    assert held.stranded.tolist() == [[0, Missing.ACCEPT], [1, Missing.ACCEPT]]
    assert summarise(held).verdict is Verdict.STRANDED
    assert held.counts[Count.ACCEPTS] == 0
    for free in (
        outcome_with(10_000, 20_000, idle=3, workers=4),
        outcome_with(10_000, 20_000, idle=3, workers=3, idle_life_ns=100_000),
    ):
        assert len(free.stranded) == 0
        assert free.counts[Count.REPLIES] == 4
    late = outcome_with(10_000, 9_999_000, workers=1, think_ns=20 * MILLISECOND_NS)
    assert late.counts[Count.ACCEPTS] == 1
    assert len(late.stranded) == 0  # the thread will be back


def test_threads_without_descriptors_try_again() -> None:
    outcome = outcome_with(*[10_000] * 6, think_ns=100_000, workers=6, fd_limit=8)
    assert outcome.counts[Count.ACCEPT_NO_FD] > 0
    assert outcome.counts[Count.REPLIES] == 12


@pytest.mark.parametrize(
    ("limit", "failed"), [("fd_limit", Count.ACCEPT_NO_FD), ("files_max", Count.ACCEPT_NO_FILE)]
)
def test_at_the_limit_of_descriptors_accept_fails_at_once_though_no_connection_waits(
    limit: str, failed: Count
) -> None:
    # Four clients stay and have all descriptors, or files. The thread that accepts would sleep for
    # the rest of the run if the queue were checked first (__sys_accept4_file(), do_accept()).
    server = on_server(threads=int(Threads.ON_DEMAND), workers=6, **{limit: 8})
    trace = arrivals(*range(10_000, 10_004), requests=2, think_ns=10 * MILLISECOND_NS)
    steps, outcome = timelines(trace, server, 1_000_000, "blocking")
    assert outcome.counts[[Count.ACCEPTS, Count.ACCEPT_AGAIN]].tolist() == [4, 0]
    assert outcome.counts[failed] > 1_000
    assert steps[0][-1][2] == "ACCEPT"


def test_threads_reset_what_has_waited_for_too_long() -> None:
    outcome = outcome_with(
        *[10_000] * 3, workers=1, think_ns=100_000, queue_deadline_ns=50_000, queue_interval_ns=100
    )
    assert outcome.counts[[Count.SHED, Count.REPLIES]].tolist() == [2, 2]


# -- threads and processes on demand


def test_a_thread_is_begun_for_a_connection_and_ends_with_it() -> None:
    server = THREE_CPUS.but(threads=int(Threads.ON_DEMAND))
    steps, outcome = timelines(ONE, server, mechanism="blocking")
    assert steps[0] == [
        *SERVES[:3],
        (13_075, 13_675, "SPAWN"),
        (13_675, 13_775, "ACCEPT"),
        (13_775, 13_815, "SLEEP"),
    ]
    assert steps[1] == [
        (14_675, 15_175, "WAKE"),  # on a CPU that was idle
        (15_175, 15_375, "READ"),
        (15_375, 15_525, "USER"),
        (15_525, 15_925, "WRITE"),
        (15_925, 16_175, "CLOSE"),
        (16_175, 16_715, "SPAWN"),  # 350, and 190: its CPU keeps the stacks of two others
        (16_715, 16_755, "SLEEP"),
    ]
    assert outcome.counts[[Count.SPAWNS, Count.SPAWN_AGAIN]].tolist() == [1, 0]


def test_a_process_costs_more_to_begin_to_end_and_to_switch_to() -> None:
    # The child that was forked takes the CPU from nobody: it waits until its parent sleeps.
    server = on_server(workers=2, threads=int(Threads.PROCESSES))
    steps, _ = timelines(ONE, server, 30_000, "blocking")
    assert steps[0] == [
        (11_430, 12_080, "WAKE"),  # 500; the other was the last to sleep, nobody is runnable: 150
        (12_080, 12_105, "ACCEPT"),
        (12_105, 12_305, "ACCEPT"),
        (12_305, 18_305, "SPAWN"),
        (18_305, 18_405, "ACCEPT"),
        (18_405, 18_415, "SLEEP"),  # the process is runnable: 30 of 40 are saved
    ]
    assert steps[1] == [
        (18_415, 19_065, "WAKE"),
        (19_065, 19_265, "READ"),
        (19_265, 19_415, "USER"),
        (19_415, 19_815, "WRITE"),
        (19_815, 20_225, "CLOSE"),  # with the reset
        (20_225, 23_725, "SPAWN"),
        (23_725, 23_765, "SLEEP"),  # nobody is runnable
    ]


def test_a_thread_that_is_begun_has_had_what_others_have_had_on_average() -> None:
    server = on_server(workers=4, threads=int(Threads.ON_DEMAND))
    world = prepare_world("blocking", ONE, toy_costs("blocking"), RunSettings(**server))
    cpu, first, second, third, begun = world.cpus[0], *world.workers
    cpu.awaits_turn = True  # the clock will tick
    for worker in world.workers:
        boot(world, worker)  # the first runs
    first.had_ns, second.had_ns, third.had_ns, begun.had_ns = 100, 400, 700, 10_000
    cpu.n_runnable -= 1
    begun.blocked = True
    begin_thread(world, begun)
    assert begun.had_ns == 400
    places = (cpu.first_runnable + i for i in range(cpu.n_runnable))
    assert [cpu.runnable[place % len(cpu.runnable)] for place in places] == [1, 3, 2]
    assert not cpu.leaves
    assert world.counts[Count.PREEMPTIONS] == 0


def test_a_cpu_keeps_the_stacks_of_two_threads_that_have_ended() -> None:
    # All four are begun before the first of them runs: two find a stack. The first two that end
    # leave theirs to the CPU, so the last two of the next four find none either.
    server = on_server(workers=5, threads=int(Threads.ON_DEMAND))
    trace = arrivals(*[10_000] * 4, *[200_000] * 4)
    steps, outcome = timelines(trace, server, 400_000, "blocking")
    begun = [end - begin for begin, end, kind in steps[0] if kind == "SPAWN"]
    assert begun == [600, 600, 600 + 280, 600 + 280] * 2
    ended = [
        [end - begin for begin, end, kind in steps[number] if kind == "SPAWN"]
        for number in (1, 2, 3, 4)
    ]
    assert ended == [[350] * 2, [350] * 2, [350 + 190] * 2, [350 + 190] * 2]
    assert outcome.counts[Count.SPAWNS] == 8


def test_a_thread_leaves_its_stack_to_its_own_cpu() -> None:
    # Threads begin on the CPU of the one that accepts, and end on the other two in turn.
    server = on_server(workers=3, cpus=3, interrupt_cpu=2, threads=int(Threads.ON_DEMAND))
    trace = arrivals(*range(10_000, 110_000, 20_000))
    steps, _ = timelines(trace, server, 400_000, "blocking")
    begun = [end - begin for begin, end, kind in steps[0] if kind == "SPAWN"]
    assert begun[:3] == [600, 600, 600 + 280]


def test_a_switch_costs_more_the_more_threads_are_runnable() -> None:
    server = on_server(workers=4, threads=int(Threads.ON_DEMAND))
    steps, _ = timelines(arrivals(*[10_000] * 3), server, 60_000, "blocking")
    # All three are begun before the first of them runs: behind it two are runnable, one, none.
    # Beyond the last knot (1: 17) the last slope goes on.
    wakes = [steps[number][0] for number in (1, 2, 3)]
    assert [end - begin for begin, end, _ in wakes] == [500 + 19, 500 + 17, 500 + 15]


def test_a_handover_costs_what_was_measured_however_little_of_it_is_falling_asleep() -> None:
    costs = toy_costs("blocking")
    assert (costs.interrupt.sleep_ns, costs.interrupt.wake_ns) == (40, 500)
    costs = costs._replace(mechanism=costs.mechanism._replace(saved_ns=340))
    server = on_server(workers=2, threads=int(Threads.ON_DEMAND))
    steps, _ = timelines(ONE, server, 60_000, "blocking", costs=costs)
    slept = next(step for step in steps[0][1:] if step[2] == "SLEEP")
    woken = steps[1][0]
    assert slept[1] == woken[0]  # the CPU went straight to the thread that was begun
    switch = 15
    assert woken[1] - slept[0] == 40 + 500 - 340 + switch
    # From idleness it takes all of it.
    assert steps[0][0][1] - steps[0][0][0] == 500 + switch


def test_a_thread_that_was_alone_on_its_cpu_pays_for_no_switch() -> None:
    # Thread 0 reads, sleeps and reads: nobody else has run in between.
    server = on_server(workers=2)
    trace = arrivals(10_000, requests=2, think_ns=5_000)
    steps, _ = timelines(trace, server, 40_000, "blocking")
    wakes = [end - begin for begin, end, name in steps[0] if name == "WAKE"]
    assert wakes == [500 + 15, 500]


def test_b19_23_a_thread_whose_stack_does_not_fit_is_not_begun() -> None:
    server = on_server(workers=1_000, threads=int(Threads.ON_DEMAND), address_space_bytes=7 * MIB)
    trace = arrivals(*[10_000] * 4, requests=2, think_ns=20_000)
    steps, outcome = timelines(trace, server, 100_000, "blocking")
    # Three stacks of 2 MiB: one thread accepts, two serve; two connections are reset.
    assert outcome.counts[[Count.SPAWNS, Count.SPAWN_AGAIN]].tolist() == [2, 2]
    assert outcome.status.tolist() == [Status.REPLIED, Status.REPLIED, Status.RESET, Status.RESET]
    refused = [step for step in steps[0] if step[2] in {"SPAWN", "CLOSE"}][2:4]
    (begin, told, _), (_, closed, _) = refused
    assert (told - begin, closed - told) == (45, 250)
    assert [bool(steps[number]) for number in (1, 2, 3)] == [True, True, False]
    # A process has an address space of its own, and a thread that has ended makes room.
    for more in (
        server.but(threads=int(Threads.PROCESSES)),
        server.but(address_space_bytes=2_000 * MIB),
    ):
        _, outcome = timelines(trace, more, 200_000, "blocking")
        assert outcome.counts[[Count.SPAWNS, Count.SPAWN_AGAIN]].tolist() == [4, 0]
    again = outcome_with(10_000, 500_000, 1_000_000, workers=2, threads=int(Threads.ON_DEMAND))
    assert again.counts[[Count.SPAWNS, Count.REPLIES]].tolist() == [3, 6]


def test_b19_23_ten_thousand_threads_do_not_fit_32_bits() -> None:
    with pytest.raises(ValueError, match=r"idle must be at most 1535, .* one of 1536 threads"):
        outcome_with(
            10_000,
            idle=10_000,
            workers=20_000,
            threads=int(Threads.ON_DEMAND),
            address_space_bytes=3_072 * MIB,
        )
    with pytest.raises(ValueError, match=r"workers must be at most 1536, .* got 10000"):
        outcome_with(10_000, workers=10_000, address_space_bytes=3_072 * MIB)


def test_idle_connections_of_threads_on_demand_end_theirs() -> None:
    on_demand = int(Threads.ON_DEMAND)
    outcome = outcome_with(10_000, idle=20, idle_life_ns=500_000, workers=30, threads=on_demand)
    assert outcome.counts[Count.SPAWNS] == outcome.counts[Count.ACCEPTS] > 100


# -- settings that do not go together


@pytest.mark.parametrize(
    ("mechanism", "server", "idle", "message"),
    [
        (
            "epoll_level",
            {"threads": 1},
            0,
            "threads must be 0 with epoll_level, whose workers all start before the run, got 1",
        ),
        ("epoll_level", {"workers": 1_025}, 0, "workers must be at most 1024, got 1025"),
        ("blocking", {"workers": 32_769}, 0, "workers must be at most 32768, got 32769"),
        ("blocking", {"busy": True}, 0, "busy must be false with blocking"),
        (
            "blocking",
            {"workers": 2, "sharing": int(Sharing.NOTHING)},
            0,
            "sharing must be 1 with blocking, whose threads block in their calls, got 0",
        ),
        ("blocking", {"limiter_gain_permille": 300}, 0, "limiter_gain_permille must be 0"),
        ("blocking", {"threads": 1}, 0, "workers must be at least 2, .* there can be 1"),
        ("blocking", {"threads": 7, "workers": 2}, 0, "threads must be one of .* got 7"),
        ("blocking", {"workers": 3}, 4, "idle must be at most 3, .* one of 3 threads, got 4"),
        ("blocking", {"stack_bytes": 0}, 0, "stack_bytes must be at least 1, got 0"),
        ("blocking", {"address_space_bytes": -1}, 0, "address_space_bytes must be at least 0"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    mechanism: str, server: dict[str, Any], idle: int, message: str
) -> None:
    run = RunSettings(**on_server(**server), client=ClientSettings(idle=idle))
    with pytest.raises(ValueError, match=message):
        simulate(mechanism, ONE, toy_costs(mechanism), run)
