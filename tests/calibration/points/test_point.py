"""A point decides its arrivals, the server's options and the simulator's settings."""

import pytest

from dispatchsim.calibration.points.point import point_at, server_options, stored, trace_to_replay
from dispatchsim.calibration.points.points import FIT_POINT
from dispatchsim.calibration.running.preparation import settings_at
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.sim.state.family_settings import Threads
from dispatchsim.sim.state.program_settings import Sharing, Wakes


def test_a_seed_depends_on_the_point_and_the_repeat_only() -> None:
    assert FIT_POINT.seed(3) == point_at(FIT_POINT).seed(3)
    assert FIT_POINT.seed(3) != FIT_POINT.seed(4)
    assert FIT_POINT.seed(3) != point_at(FIT_POINT, idle=1).seed(3)
    rate = point_at(mechanism="poll", loop="open", rate_per_s=5000)
    assert rate.seed(0) == point_at(rate, rate_per_s=5000.0).seed(0)


def test_fields_that_came_later_leave_earlier_seeds_as_they_were() -> None:
    # From a shipped record: measured/epyc-family26-2cpu-linux-6.18/fit.jsonl, the first run.
    assert FIT_POINT.seed(0) == 749977356
    assert len({point_at(FIT_POINT, signal_queue=n).seed(0) for n in (0, 1, 2)}) == 3


def test_a_burst_is_many_connections_at_an_instant() -> None:
    point = point_at(mechanism="poll", loop="open", rate_per_s=5_000, burst=50)
    for seconds in (0.091, 0.1):
        at_ns = trace_to_replay(point, 0, seconds).at_ns.tolist()
        assert at_ns == sorted([10_000_000 * i for i in range(10)] * 50)


def test_threads_that_block_are_the_servers_and_the_simulators() -> None:
    point = point_at(mechanism="blocking", users=4, threads="on demand", workers=8)
    assert point.label == "blocking idle 0 closed 4 on demand of 8"
    options = server_options(point)
    assert options[-4:] == ["--threads", "on-demand", "--workers", "8"]
    run = settings_at(point, 0)
    assert (run.program.workers, run.blocking.threads) == (8, Threads.ON_DEMAND)
    assert run.program.wakes == Wakes.USUAL
    others = [point_at(point, workers=9), point_at(point, threads="pool")]
    assert len({one.seed(0) for one in (point, *others)}) == 3


def test_an_event_loop_is_told_of_no_threads() -> None:
    assert "--threads" not in server_options(FIT_POINT)
    server = settings_at(FIT_POINT, 0)
    program, blocking = server.program, server.blocking
    assert (program.workers, blocking.threads, program.wakes) == (1, Threads.POOL, Wakes.USUAL)


def test_work_and_timeout_are_the_servers_the_simulators_and_on_disk() -> None:
    plain = point_at(mechanism="epoll_level", loop="open", rate_per_s=9_000)
    point = point_at(plain, request_work_ns=20_000, timeout_ns=50_000_000)
    assert point.label == "epoll_level idle 0 open 9000/s work 20 us timeout 50 ms"
    assert server_options(point)[-2:] == ["--request-us", "20"]
    assert "--request-us" not in server_options(plain)
    assert settings_at(point, 0).program.request_cpu_ns == 20_000
    fields = stored(point)
    assert (fields["request_work_ns"], fields["timeout_ns"]) == (20_000, 50_000_000)
    assert point_at(**fields) == point
    # Rows of before have no such field, and their seeds stay.
    assert point_at(**{k: v for k, v in stored(plain).items() if k != "request_work_ns"}) == plain
    assert len({one.seed(0) for one in (plain, point, point_at(point, request_work_ns=0))}) == 3


def test_kept_connections_have_requests_at_a_rate_and_are_on_disk() -> None:
    plain = point_at(mechanism="epoll_level", loop="open", rate_per_s=9_000)
    point = point_at(plain, connections=60)
    assert point.label == "epoll_level idle 0 kept 60 open 9000/s"
    assert point_at(point, arrivals="constant").label == f"{point.label} constant"
    assert (point.keeps, point.replies_each, plain.keeps) == (True, 1, False)
    assert point_at(plain, requests=3).replies_each == 3
    assert point_at(point, requests=3).replies_each == 1
    assert point_at(**stored(point)) == point
    # Rows of before have no such fields, and their seeds stay.
    early = {k: v for k, v in stored(plain).items() if k not in ("connections", "arrivals")}
    assert point_at(**early) == plain
    assert len({one.seed(0) for one in (plain, point, point_at(point, connections=0))}) == 2
    trace = trace_to_replay(point, 1, 0.1)
    assert (trace.loop, trace.users, len(trace)) == ("kept", 60, 60)
    # A longer run begins with the requests of a shorter one, for the same users.
    longer, n = trace_to_replay(point, 1, 0.2), trace.arrival_ns.size
    assert longer.arrival_ns[:n].tolist() == trace.arrival_ns.tolist()
    assert longer.arrival_user[:n].tolist() == trace.arrival_user.tolist()


def test_several_event_loops_are_threads_on_one_cpu() -> None:
    loops = point_at(FIT_POINT, workers=2)
    own = point_at(loops, share="nothing")
    told = point_at(loops, wake="one")
    assert [point.label for point in (loops, own, told)] == [
        "epoll_level idle 0 closed 64 workers 2",
        "epoll_level idle 0 closed 64 workers 2 share nothing",
        "epoll_level idle 0 closed 64 workers 2 wake one",
    ]
    assert len({point.seed(0) for point in (FIT_POINT, loops, own, told)}) == 4
    runs = [settings_at(point, 0) for point in (loops, own, told)]
    assert {(run.program.workers, run.machine.cpus) for run in runs} == {(2, 1)}
    assert {(run.kernel.slice_ns, run.kernel.tick_ns) for run in runs} == {(1_400_000, 4_000_000)}
    shared = [(run.program.sharing, run.program.wakes) for run in runs]
    assert shared == [
        (Sharing.ACCEPT_QUEUE, Wakes.USUAL),
        (Sharing.NOTHING, Wakes.USUAL),
        (Sharing.ACCEPT_QUEUE, Wakes.ONE),
    ]
    with pytest.raises(ValueError, match=r"^our server has one event loop, got 2 workers$"):
        server_options(loops)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"idle": -1, "users": 4}, "idle.connections: must be at least 0, got -1"),
        ({"users": 4, "backlog": 0}, "server.backlog: must be at least 1, got 0"),
        ({}, 'load.users: is missing, and load.loop = "closed" needs it'),
        ({"users": 4, "burst": 2}, "burst: must be 1 in a closed loop, got 2"),
        (
            {"users": 4, "request_work_ns": 20_500},
            "server.request_cpu: must be whole microseconds on a testbed, got 20500 ns",
        ),
        ({"users": 4, "threads": "processes"}, "server.threads: .*poll.*"),
        ({"users": 4, "workers": 2, "share": "nothing", "wake": "one"}, "server.wake: .*"),
        ({"mechanism": "blocking", "users": 4}, "server.workers: is missing.*"),
        (
            {"loop": "open", "rate_per_s": 5_000, "connections": 4, "burst": 2},
            "burst: must be 1 with kept connections, got 2",
        ),
        ({"loop": "open"}, 'load.rate: is missing, and load.loop = "open" needs it'),
        ({"users": 4, "queue": 3}, "has no field queue, got 3"),
    ],
)
def test_an_impossible_point_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match="^point: " + message + "$"):
        point_at(**{"mechanism": "poll"} | fields)
