"""What a server takes for itself is found again from the throughput that it leads to."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from dispatchsim.calibration.fit.medians import FitError
from dispatchsim.calibration.fit.request_fit import simulated_rate_per_s
from dispatchsim.calibration.observed.application_fit import (
    fit_application,
    scenario_text,
    was_fitted_to,
)
from dispatchsim.calibration.observed.observed_run import Habits, ObservedRun, observed_run
from dispatchsim.calibration.observed.operating_point import point_of
from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.calibration.profiles.cost_profile import shipped
from dispatchsim.calibration.running.preparation import open_connections
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.units import SECOND_NS

HABITS = Habits("epoll_level", accept_limit=1)
REQUEST_NS, CONNECTION_NS = 9_000, 14_000
SIMULATED_NS = 100_000_000
WINDOW_NS = 10 * SECOND_NS


def run_of(replied: float, **changes: Any) -> ObservedRun:
    load = {"loop": "closed", "users": 64, "requests": 1, "idle": 0} | changes.pop("load", {})
    content = {
        "source": {"tool": "test", "file": "a run"},
        "load": load,
        "window_ns": WINDOW_NS,
        "offered": round(replied),
        "replied": round(replied),
        "busy_share": 1.0,
    }
    return observed_run("a run", content | changes)


def of_a_known_server(**load: Any) -> ObservedRun:
    """Return what would be seen of a server that takes REQUEST_NS and CONNECTION_NS for itself."""
    machine = example_profile()
    point = point_of(run_of(1, load=load), HABITS)
    costs = machine.costs(point.server.mechanism, open_connections=open_connections(point))
    costs = costs._replace(application=ApplicationCosts(REQUEST_NS, connection_ns=CONNECTION_NS))
    rate_per_s = simulated_rate_per_s(point, costs, machine, 20_000.0, SIMULATED_NS)
    return run_of(rate_per_s * WINDOW_NS / SECOND_NS, load=load)


def test_request_and_connection_are_told_apart_by_kept_connections() -> None:
    runs = [of_a_known_server(), of_a_known_server(requests=8)]
    fit = fit_application(
        example_profile(), runs * 2, HABITS, name="mine", simulated_ns=SIMULATED_NS
    )
    application = fit.profile.cost["application"]
    assert application["request_ns"].value[0] == pytest.approx(REQUEST_NS, rel=0.02)
    assert application["connection_ns"].value[0] == pytest.approx(CONNECTION_NS, rel=0.03)
    assert list(fit.points.values()) == [2, 2]
    assert fit.profile.name == "mine"
    assert fit.next_run.requests in (1, 8, 100)
    assert 0 < fit.next_run.shrinks_ns < sum(fit.half_widths)
    assert fit.notes == ()
    assert application["request_ns"].low[0] < REQUEST_NS < application["request_ns"].high[0]
    text = scenario_text(fit, closes_first=None, profile_path=Path("mine.toml"))
    (own,) = re.findall(r"own code: (\S+) µs a request \(.* to .*\), (\S+) µs a connection", text)
    assert [round(float(each)) for each in own] == [9, 14]
    fitted = was_fitted_to(fit.profile, runs)
    seen = [point_of(run, HABITS) for run in runs]
    assert [fitted(point) for point in seen] == [True, True]
    assert not fitted(point_at(seen[0], users=32))
    assert not fitted(point_at(seen[0], read_after_accept=True))
    assert not fitted(point_at(seen[0], think_ns=1_000_000))


def test_of_another_server_a_profile_has_seen_nothing() -> None:
    mine, other = (run_of(20_000, server={"command": name}) for name in ("mine", "other"))
    fit = fit_application(example_profile(), [mine], HABITS, name="mine", simulated_ns=SIMULATED_NS)
    point = point_of(mine, HABITS)
    assert was_fitted_to(fit.profile, [other, mine])(point)
    assert not was_fitted_to(fit.profile, [other])(point)


def test_what_is_left_out_or_taken_for_granted_is_said() -> None:
    runs = [
        of_a_known_server(),
        of_a_known_server(users=32),
        of_a_known_server().model_copy(update={"busy_share": None}),
        of_a_known_server().model_copy(update={"errors": {"reset": 7}}),
        run_of(1000, busy_share=0.5),
    ]
    fit = fit_application(example_profile(), runs, HABITS, name="mine", simulated_ns=SIMULATED_NS)
    assert [point.users for point in fit.points] == [64]
    assert any("busy for only 50%" in note for note in fit.notes)
    assert any("closed 32" in note and "left out" in note for note in fit.notes)
    assert any("the server's CPU was not observed" in note for note in fit.notes)
    assert any("connections failed (reset)" in note for note in fit.notes)


def test_kept_connections_alone_tell_of_the_request_only() -> None:
    fit = fit_application(
        example_profile(),
        [of_a_known_server(requests=0)],
        HABITS,
        name="mine",
        simulated_ns=SIMULATED_NS,
    )
    application = fit.profile.cost["application"]
    assert application["request_ns"].value[0] == pytest.approx(REQUEST_NS, rel=0.02)
    assert "connection_ns" not in application
    assert fit.next_run.requests == 1
    assert math.isinf(fit.next_run.before.connection_ns)
    assert math.isfinite(fit.next_run.after.connection_ns)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (
            {"accepted": False, "reason": "somebody else"},
            "a run: left out, it was disturbed: somebody else",
        ),
        ({"busy_share": 0.6}, "busy for only 60% of the time: it needs more users"),
        ({"errors": {"status": 3}}, "3 replies were errors"),
        ({"calls": {"read": 3}}, "its calls were counted, which slows"),
        (
            {
                "load": {"loop": "open", "requests": 0, "rate_per_s": 500, "users": None},
                "offered": 5000,
                "errors": {"timeout": 4000},
            },
            "load.users: must be known for a closed loop",
        ),
        (
            {"load": {"loop": "open", "rate_per_s": 100, "users": None}, "offered": 1000},
            "an open loop that the server kept up with",
        ),
    ],
)
def test_a_run_that_tells_nothing_is_left_out_with_its_reason(
    changes: dict[str, Any], rule: str
) -> None:
    with pytest.raises(FitError, match=rule):
        fit_application(example_profile(), [run_of(1000, **changes)], HABITS, name="mine")


def test_a_closed_loop_needs_its_users() -> None:
    with pytest.raises(FitError, match=r"load\.users: must be known"):
        point_of(run_of(1000, load={"users": None}), HABITS)


def test_runs_that_keep_their_connections_for_eight_and_for_many_requests_are_solved_too() -> None:
    runs = [of_a_known_server(requests=2), of_a_known_server(requests=8), of_a_known_server()]
    fit = fit_application(
        example_profile(), runs[:2], HABITS, name="mine", simulated_ns=SIMULATED_NS
    )
    application = fit.profile.cost["application"]
    assert application["request_ns"].value[0] == pytest.approx(REQUEST_NS, rel=0.03)
    assert application["connection_ns"].value[0] == pytest.approx(CONNECTION_NS, rel=0.05)
    all_three = fit_application(
        example_profile(), runs, HABITS, name="mine", simulated_ns=SIMULATED_NS
    )
    assert len(all_three.points) == 3
    assert all_three.half_widths.connection_ns < fit.half_widths.connection_ns


def test_an_open_loop_past_the_capacity_tells_it_too() -> None:
    point = point_of(run_of(1), HABITS)
    machine = example_profile()
    costs = machine.costs(point.server.mechanism, open_connections=0)
    costs = costs._replace(application=ApplicationCosts(REQUEST_NS))
    open_point = point_at(point, loop="open", users=0, rate_per_s=30_000.0)
    rate_per_s = simulated_rate_per_s(open_point, costs, machine, 30_000.0, SIMULATED_NS)
    run = run_of(
        rate_per_s * WINDOW_NS / SECOND_NS,
        load={"loop": "open", "users": None, "rate_per_s": 30_000.0},
        offered=300_000,
        errors={"timeout": round(300_000 - 10 * rate_per_s)},
    )
    fit = fit_application(machine, [run], HABITS, name="mine", simulated_ns=SIMULATED_NS)
    found_ns = fit.profile.cost["application"]["request_ns"].value[0]
    assert found_ns == pytest.approx(REQUEST_NS, rel=0.05)


def test_a_server_that_is_faster_than_the_machine_allows_is_said_to_be() -> None:
    fast = run_of(400_000 * 10, load={"requests": 0})
    fit = fit_application(example_profile(), [fast], HABITS, name="mine", simulated_ns=SIMULATED_NS)
    assert fit.profile.cost["application"]["request_ns"].value == (0,)
    assert any(
        "fewer replies than the measured one, and no cost of its own" in note for note in fit.notes
    )


def test_think_times_are_those_of_the_run() -> None:
    assert point_of(run_of(1000, load={"think_ns": 5_000_000}), HABITS).load.think_time == 5_000_000


def test_paced_requests_on_kept_connections_are_a_closed_loop_where_the_server_is_behind() -> None:
    load = {"loop": "open", "requests": 0, "rate_per_s": 1000, "users": 64}
    behind = run_of(1000, load=load, offered=10_000, errors={"timeout": 9_000})
    assert point_of(behind, HABITS).users == 64
    with pytest.raises(FitError, match="requests at a rate on connections that are kept"):
        point_of(run_of(10_000, load=load), HABITS)


def test_what_workers_share_is_of_several_and_whom_to_wake_of_one_queue() -> None:
    def point(**server: Any) -> Point:
        return point_of(run_of(1000, server=server), HABITS)

    one = point()
    assert one == point(workers=1, share="nothing", wake="one")
    assert point(workers=2, wake="one") == point_at(one, workers=2, wake="one")
    assert point(workers=2, share="nothing", wake="one") == point_at(
        one, workers=2, share="nothing"
    )
    # memcached -t 1: its listening thread is another one.
    handed = point_at(one, workers=2, share="handed over")
    assert point(share="handed over") == handed
    assert point(share="handed over", reads_after_accept=True) == handed
    with pytest.raises(FitError, match=r'server\.wake: must be "all" .* poll, got "one"'):
        point(mechanism="poll", workers=2, wake="one")
    for n in (1, 8):
        pool = point(mechanism="blocking", workers=n, reads_after_accept=True, accept_limit=1)
        assert pool == point_at(one, mechanism="blocking", workers=n, accept_limit=0)
    for name in ("blocking", "epoll_edge"):
        with pytest.raises(FitError, match=r'^server\.share: must not be "handed over" '):
            point(mechanism=name, workers=40, share="handed over")


def test_two_event_loops_on_one_cpu_do_not_answer_twice_as_much() -> None:
    machine = shipped()["epyc-family25-2cpu-linux-6.18"]

    def rate_per_s(**server: Any) -> float:
        point = point_of(run_of(1, server=server), HABITS)
        costs = machine.costs(point.server.mechanism, open_connections=point.users)
        costs = costs._replace(application=ApplicationCosts(REQUEST_NS))
        return simulated_rate_per_s(point, costs, machine, 20_000.0, SIMULATED_NS)

    alone = rate_per_s()
    assert 0.85 * alone < rate_per_s(workers=2, share="nothing") < 1.02 * alone
