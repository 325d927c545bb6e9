"""A forecast is the simulation of the measured run, with an interval over drawn costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.served import served
from tests.validation.synthetic_runs import SHORT, synthetic_run

from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import Gaps
from dispatchsim.calibration.running.preparation import settings_at
from dispatchsim.sim.figures.summary import Verdict
from dispatchsim.sim.state.host_gaps import HostGaps
from dispatchsim.validation.forecast.forecast import (
    Lengths,
    Request,
    combine,
    forecast,
    forecasts,
    jobs_of,
    lengths_of,
    neighbours_of,
)
from dispatchsim.validation.points.figures import NAN, Figures, result_of
from dispatchsim.validation.points.measured_points import figures_of_run, group
from dispatchsim.validation.report import hardware_section
from dispatchsim.validation.report.hardware_section import forecast_all

CLOSED = point_at(mechanism="poll", idle=200, users=8)
OPEN = point_at(mechanism="select", idle=50, loop="open", rate_per_s=8_000)


@pytest.mark.parametrize("point", [CLOSED, OPEN], ids=lambda point: point.load.loop)
def test_with_the_true_costs_the_forecast_is_the_measured_run(
    profile: Profile, point: Point
) -> None:
    run = synthetic_run(point, profile)
    found = forecast(point, profile, seeds=[run.seed], draws=0, lengths=SHORT)
    # A record of so few replies has no p99.9; a simulated run always has one.
    assert found.central._replace(p999_ns=NAN) == figures_of_run(run)
    assert all(math.isnan(value) for value in found.low)


def test_the_options_of_a_point_reach_the_simulator() -> None:
    point = point_at(
        OPEN, accept_limit=3, listener="last", backlog=77, max_events=9, read_after_accept=True
    )
    asked = point.lasting(*SHORT)
    settings = settings_at(asked, 5_000)
    server = served(settings)
    assert (server.accept_limit, server.listener_last, server.read_after_accept) == (3, True, True)
    assert (server.backlog, server.refuse, server.max_events) == (77, False, 9)
    assert settings.client.idle == point.idle.connections
    assert settings.client.timeout_ns == point.load.timeout
    assert (settings.warm_up_ns, settings.duration_ns) == (20_000_000, 80_000_000)
    assert settings.network.delay_ns == 5_000


def test_accept_limited_runs_warm_up_longer() -> None:
    assert lengths_of(CLOSED) == Lengths(500_000_000, 1_500_000_000)
    assert lengths_of(point_at(CLOSED, accept_limit=1)) == Lengths(1_500_000_000, 1_500_000_000)


def test_users_never_run_out_of_connections(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = jobs_of(Request(CLOSED, (1,), 0, SHORT), profile)
    enough = result_of(job)
    monkeypatch.setattr("dispatchsim.calibration.running.preparation._ROWS_PER_S", 1)
    assert result_of(job) == enough


def test_the_interval_brackets_the_central_value(profile: Profile) -> None:
    found = forecast(CLOSED, profile, seeds=[1], draws=8, lengths=SHORT)
    low, high = found.low.throughput_per_s, found.high.throughput_per_s
    assert low < found.central.throughput_per_s < high
    assert found.verdict == Verdict.STABLE


def test_seeds_stand_for_each_other_where_nothing_is_random(profile: Profile) -> None:
    assert len(jobs_of(Request(CLOSED, (1, 2, 3), 4, SHORT), profile)) == 1 + 4
    jobs = jobs_of(Request(OPEN, (1, 2, 3), 4, SHORT), profile)
    assert [job.seed for job in jobs] == [1, 2, 3, 1, 2, 3, 1]


def test_points_share_the_draws_of_costs(profile: Profile) -> None:
    one = jobs_of(Request(CLOSED, (1,), 2, SHORT), profile)
    other = jobs_of(Request(point_at(CLOSED, users=64), (9,), 2, SHORT), profile)
    assert [job.costs for job in one] == [job.costs for job in other]
    assert one[1].costs != one[2].costs


def test_the_number_of_workers_changes_nothing(profile: Profile) -> None:
    requests = [Request(CLOSED, (1,), 3, SHORT), Request(OPEN, (1, 2), 2, SHORT)]
    told: list[tuple[int, int]] = []
    with ThreadPoolExecutor(3) as executor:
        pooled = dict(
            forecasts(
                requests, profile, executor=executor, progress=lambda *done: told.append(done)
            )
        )
    alone = dict(forecasts(requests, profile))
    assert [pooled[r] for r in requests] == [alone[r] for r in requests]
    assert told == [(n, 8) for n in range(1, 9)]


def test_ends_of_percentiles_are_in_order_of_rank(profile: Profile) -> None:
    def run(p50_ns: float, p99_ns: float, p999_ns: float) -> tuple[Figures, Verdict]:
        return Figures(1.0, 0.5, 1.0, p50_ns, p99_ns, 1.0, p999_ns), Verdict.STABLE

    # Of three cost samples p50 has little spread, p99 much: only its own interval is cut.
    drawn = [run(50.0, 60.0, 200.0), run(51.0, 100.0, 210.0), run(52.0, 140.0, 220.0)]
    found = combine(Request(OPEN, (1,), 3, SHORT), [run(51.0, 100.0, 210.0), *drawn])
    # Student's t of two degrees of freedom, 4.303, times the standard deviation x sqrt(1 + 1/3).
    assert (found.low.p50_ns, found.high.p50_ns) == pytest.approx((46.03, 55.97), abs=0.01)
    assert (found.low.p99_ns, found.high.p99_ns) == (found.low.p50_ns, found.high.p999_ns)
    assert (found.low.p999_ns, found.high.p999_ns) == pytest.approx((160.3, 259.7), abs=0.1)
    assert (found.low.throughput_per_s, found.low.cpu_busy) == (1.0, 0.5)


def test_no_seeds_and_negative_draws_are_refused(profile: Profile) -> None:
    with pytest.raises(ValueError, match="at least one seed, got none"):
        forecast(CLOSED, profile, seeds=[], draws=0)
    with pytest.raises(ValueError, match="cost samples must be at least 0, got -1"):
        forecast(CLOSED, profile, seeds=[1], draws=-1)


def test_a_curve_is_forecast_around_its_measured_rates() -> None:
    near = neighbours_of(Request(OPEN, (1,), 9, SHORT))
    assert [(r.point.rate_per_s, r.draws) for r in near] == [
        (7_200, 0),
        (7_600, 0),
        (8_400, 0),
        (8_800, 0),
    ]
    assert neighbours_of(Request(CLOSED, (1,), 9, SHORT)) == []


def test_a_run_that_recorded_its_gaps_is_forecast_with_them(profile: Profile) -> None:
    run = synthetic_run(OPEN, profile)
    length_ns = [2_000_000] * 8
    gaps = Gaps(
        above_ns=5_000,
        n=8,
        lost_ns=sum(length_ns),
        at_ns=[10_000_000 * i for i in range(8)],
        length_ns=length_ns,
    )
    (quiet,) = group([run])
    (noisy,) = group([run.model_copy(update={"client_gaps": gaps})])
    assert quiet.own_gaps == ()
    # The harness's clock says when the run ended: 100 ms and 12345 ns behind its start.
    assert noisy.own_gaps == (
        (
            run.seed,
            HostGaps(tuple(gaps.at_ns), tuple(length_ns), run.warm_up_ns + run.window_ns, False),
        ),
    )
    request = Request(OPEN, (run.seed,), 2, SHORT)
    ((_, without),) = forecasts([request], profile)
    ((_, found),) = forecasts([request._replace(own_gaps=noisy.own_gaps)], profile)
    assert without.with_own_gaps is None
    assert (found.central, found.low, found.high) == (without.central, without.low, without.high)
    # Of each 10 ms requests of 2 ms wait until the gap is over: the last percentile is such a one.
    assert found.with_own_gaps is not None
    assert found.with_own_gaps.p99_ns > 1_000_000 > found.central.p99_ns
    # What is around the point is asked for without gaps.
    assert {r.own_gaps for r in neighbours_of(request._replace(own_gaps=noisy.own_gaps))} == {()}


def test_the_control_plays_the_gaps_of_another_point(profile: Profile) -> None:
    end_ns = SHORT.warm_up_ns + SHORT.window_ns
    quiet = HostGaps((0,), (1,), end_ns, False)
    at_ns = tuple(range(0, end_ns, 10_000_000))
    noisy = HostGaps(at_ns, (2_000_000,) * len(at_ns), end_ns, False)
    request = Request(
        OPEN, (1, 2), 2, SHORT,
        own_gaps=((1, noisy), (2, noisy)), other_gaps=((1, quiet), (2, quiet)),
    )  # fmt: skip
    gaps = [(job.seed, job.gaps.client) for job in jobs_of(request, profile)[4:]]
    assert gaps == [(1, noisy), (2, noisy), (1, quiet), (2, quiet)]
    ((_, found),) = forecasts([request], profile)
    assert found.with_own_gaps is not None
    assert found.with_other_gaps is not None
    assert found.with_own_gaps.p99_ns > 1_000_000 > found.with_other_gaps.p99_ns
    ((_, alone),) = forecasts([request._replace(other_gaps=())], profile)
    assert alone.with_other_gaps is None
    assert alone.with_own_gaps == found.with_own_gaps
    assert {r.other_gaps for r in neighbours_of(request)} == {()}


def test_runs_with_gaps_have_the_arrivals_of_those_without(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []

    def seen(requests: Sequence[Request], *_: object, **__: object) -> Iterator[object]:
        asked.append(requests[0])
        return iter(())

    monkeypatch.setattr(hardware_section, "forecasts", seen)
    gaps = Gaps(above_ns=5_000, n=1, lost_ns=9_000, at_ns=[7], length_ns=[9_000])
    runs = [
        synthetic_run(OPEN, profile, repeat=i).model_copy(update={"client_gaps": gaps})
        for i in range(4)
    ]
    runs.sort(key=lambda run: -run.seed)
    quiet = runs[-1].model_copy(update={"client_gaps": None})  # its seed is the first one
    for own in (runs, [*runs[:-1], quiet]):
        forecast_all(group(own), profile, draws=0, workers=1, progress=None, kept=None)
    every, some = asked
    assert every.seeds == some.seeds == tuple(sorted(run.seed for run in runs)[:3])
    assert tuple(seed for seed, _ in every.own_gaps) == every.seeds
    assert some.own_gaps == ()
