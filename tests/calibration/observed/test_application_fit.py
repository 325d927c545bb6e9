"""What a server takes for itself is found again from the throughput that it leads to."""

from __future__ import annotations

from typing import Any

import pytest

from dispatchsim.calibration.cost_profile import default_profile
from dispatchsim.calibration.micro_medians import FitError
from dispatchsim.calibration.observed.application_fit import fit_application, point_of
from dispatchsim.calibration.observed.habits import Habits
from dispatchsim.calibration.observed.observed_run import ObservedRun, observed_run
from dispatchsim.calibration.request_fit import simulated_rate_per_s
from dispatchsim.sim.costs import ApplicationCosts
from dispatchsim.sim.units import SECOND_NS

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
    machine = default_profile()
    point = point_of(run_of(1, load=load), HABITS)
    costs = machine.costs(point.mechanism, open_connections=point.idle + point.users)
    costs = costs._replace(application=ApplicationCosts(REQUEST_NS, connection_ns=CONNECTION_NS))
    rate_per_s = simulated_rate_per_s(point, costs, machine, 20_000.0, SIMULATED_NS)
    return run_of(rate_per_s * WINDOW_NS / SECOND_NS, load=load)


def test_request_and_connection_are_told_apart_by_kept_connections() -> None:
    runs = [of_a_known_server(), of_a_known_server(requests=8)]
    fit = fit_application(
        default_profile(), runs * 2, HABITS, name="mine", simulated_ns=SIMULATED_NS, replicates=20
    )
    application = fit.profile.cost["application"]
    assert application["request_ns"].value[0] == pytest.approx(REQUEST_NS, rel=0.02)
    assert application["connection_ns"].value[0] == pytest.approx(CONNECTION_NS, rel=0.03)
    assert list(fit.points.values()) == [2, 2]
    assert fit.profile.name == "mine"
    assert "another run of" in fit.next_run
    assert fit.notes == ()


def test_what_is_left_out_or_taken_for_granted_is_said() -> None:
    runs = [
        of_a_known_server(),
        of_a_known_server(users=32),
        of_a_known_server().model_copy(update={"busy_share": None}),
        run_of(1000, busy_share=0.5),
    ]
    fit = fit_application(
        default_profile(), runs, HABITS, name="mine", simulated_ns=SIMULATED_NS, replicates=20
    )
    assert [point.users for point in fit.points] == [64]
    assert any("busy for 50% only" in note for note in fit.notes)
    assert any("closed 32" in note and "left out" in note for note in fit.notes)
    assert any("nobody saw whether the server was busy" in note for note in fit.notes)


def test_kept_connections_alone_tell_of_the_request_only() -> None:
    fit = fit_application(
        default_profile(),
        [of_a_known_server(requests=0)],
        HABITS,
        name="mine",
        simulated_ns=SIMULATED_NS,
        replicates=20,
    )
    application = fit.profile.cost["application"]
    assert application["request_ns"].value[0] == pytest.approx(REQUEST_NS, rel=0.02)
    assert "connection_ns" not in application
    assert fit.next_run.startswith("runs with one request a connection")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (
            {"accepted": False, "reason": "somebody else"},
            "a run is left out: it was disturbed: somebody else",
        ),
        ({"busy_share": 0.6}, "busy for 60% only: it needs more users"),
        ({"errors": {"status": 3}}, "3 replies were errors"),
        (
            {"load": {"loop": "open", "rate_per_s": 100, "users": None}, "offered": 1000},
            "an open loop that it kept up with",
        ),
    ],
)
def test_a_run_that_tells_nothing_is_left_out_with_its_reason(
    changes: dict[str, Any], rule: str
) -> None:
    with pytest.raises(FitError, match=rule):
        fit_application(default_profile(), [run_of(1000, **changes)], HABITS, name="mine")


def test_a_closed_loop_needs_its_users() -> None:
    with pytest.raises(FitError, match=r"load\.users: must be known"):
        point_of(run_of(1000, load={"users": None}), HABITS)
