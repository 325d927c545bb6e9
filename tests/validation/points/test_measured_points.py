"""Runs are grouped by point; medians and their scatter are over the accepted ones."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.validation.synthetic_runs import SHORT, simulated, synthetic_run

from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import ClientTimes, Gaps, Latency, RunRecord
from dispatchsim.sim.figures.summary import Verdict, summarise
from dispatchsim.validation.forecast.forecast import forecast
from dispatchsim.validation.points.figures import figures_of_summary
from dispatchsim.validation.points.measured_points import (
    figures_of_run,
    group,
    own_gaps_of,
    spread,
    verdict_of_run,
)
from dispatchsim.validation.scoring.regimes import value_of
from dispatchsim.validation.scoring.scoring import score

CLOSED = point_at(mechanism="poll", idle=100, users=8)
OPEN = point_at(mechanism="epoll_level", loop="open", rate_per_s=5_000)


def test_the_figures_of_a_run_are_rates_shares_and_quantiles(profile: Profile) -> None:
    run = synthetic_run(CLOSED, profile)
    figures = figures_of_run(run)
    assert figures.throughput_per_s == pytest.approx(run.result.replied / 0.06)
    assert figures.cpu_busy == run.result.cpu.busy_ns / SHORT.window_ns
    assert figures.process_ns_per_request == run.result.cpu.process_ns / run.result.replied
    assert figures.events_per_wait == run.result.calls["events"] / run.result.calls["waits"]


def test_interrupts_are_the_calls_by_the_clients_cpu_where_these_were_counted(
    profile: Profile,
) -> None:
    run = synthetic_run(CLOSED, profile)
    counted = run.result.cpu.n_calls / run.result.replied
    assert figures_of_run(run).interrupts_per_request == counted > 0
    cpu = run.result.cpu.model_copy(update={"n_calls": 0})
    older = run.model_copy(update={"result": run.result.model_copy(update={"cpu": cpu})})
    assert math.isnan(figures_of_run(older).interrupts_per_request)


def test_the_cpu_of_a_run_beside_other_programs_is_unknown(profile: Profile) -> None:
    run = synthetic_run(CLOSED, profile)
    noisy = run.model_copy(update={"noise": run.noise.model_copy(update={"foreign_share": 0.05})})
    assert math.isnan(figures_of_run(noisy).cpu_busy)
    assert figures_of_run(noisy)._replace(cpu_busy=0) == figures_of_run(run)._replace(cpu_busy=0)
    # Another run says what the CPU is; without one, a forecast of it has no error.
    (both,), (alone,) = group([noisy, run]), group([noisy])
    assert both.median.cpu_busy == figures_of_run(run).cpu_busy
    made = forecast(CLOSED, profile, seeds=(1,), draws=0, lengths=SHORT)
    (found,) = score([alone], {CLOSED: made}, {})
    assert found.errors.cpu is None
    assert value_of(found, "cpu_busy") is None
    assert value_of(found, "throughput_per_s") is not None


def test_rejected_repeats_are_counted_and_left_out(profile: Profile) -> None:
    good = synthetic_run(CLOSED, profile)
    bad = good.model_copy(update={"accepted": False, "repeat": 1, "window_ns": 1})
    (entry,) = group([bad, good])
    assert (entry.n_accepted, entry.n_rejected) == (1, 1)
    assert entry.median == figures_of_run(good)
    assert (entry.warm_up_ns, entry.window_ns) == SHORT


def test_a_point_whose_repeats_were_all_rejected_is_not_measured(profile: Profile) -> None:
    (entry,) = group([synthetic_run(CLOSED, profile, reason="steal_share must be ...")])
    assert not entry.measured
    assert math.isnan(entry.median.throughput_per_s)
    assert entry.seeds == (CLOSED.seed(0),)


def test_points_keep_the_order_in_which_they_were_measured(profile: Profile) -> None:
    runs = [synthetic_run(point, profile) for point in (OPEN, CLOSED, OPEN)]
    assert [entry.point for entry in group(runs)] == [OPEN, CLOSED]


def test_the_median_lies_within_its_interval() -> None:
    found = spread([9.0, 10.0, 11.0, 10.0, 30.0])
    assert found.low <= 10.0 <= found.high
    assert found.cv == pytest.approx(8.97 / 14, rel=1e-3)


def test_one_value_has_no_scatter() -> None:
    assert all(math.isnan(value) for value in spread([1.0, float("nan")]))


@pytest.mark.parametrize(
    ("rate_per_s", "verdict"), [(5_000, Verdict.STABLE), (60_000, Verdict.OVERLOADED)]
)
def test_a_measured_run_is_judged_from_its_totals(
    profile: Profile, rate_per_s: float, verdict: Verdict
) -> None:
    point = point_at(mechanism="epoll_level", loop="open", rate_per_s=rate_per_s)
    assert verdict_of_run(synthetic_run(point, profile)) == verdict


def run_with(
    profile: Profile, point: Point = OPEN, *, missing: int = 0, lag_p99_ns: int | None = None
) -> RunRecord:
    """Return a run at *point* that offered all but *missing* connections; its p99 is 1 ms."""
    run = synthetic_run(point, profile)
    offered = run.result.offered - missing
    latency = Latency(mean=2e5, p50=2e5, p90=2e5, p99=1e6, max=2e6)
    client = ClientTimes(cpu_ns=0, lag_p50_ns=1_000, lag_p99_ns=lag_p99_ns, lag_max_ns=3_000_000)
    changed = {"latency_ns": latency, "client": client, "offered": offered}
    return run.model_copy(update={"result": run.result.model_copy(update=changed)})


@pytest.mark.parametrize(
    ("missing", "lag_p99_ns", "kept_up"),
    [
        (8, None, True),  # of some 300; how late it was at p99 is unknown
        (12, None, False),
        (0, 100_000, True),  # a tenth of the p99
        (0, 100_001, False),
    ],
)
def test_a_generator_that_offers_less_or_is_late_is_the_limit_of_an_open_loop(
    profile: Profile, missing: int, lag_p99_ns: int | None, *, kept_up: bool
) -> None:
    good = run_with(profile)
    (entry,) = group([good, run_with(profile, missing=missing, lag_p99_ns=lag_p99_ns), good])
    assert entry.kept_up == kept_up
    assert entry.generator is not None
    assert entry.generator.n_limited == (not kept_up)
    n_asked = good.result.offered
    assert entry.generator.offered_share == pytest.approx(1 - missing / n_asked, abs=0.004)
    assert (entry.generator.lag_p50_ns, entry.generator.lag_max_ns) == (1_000, 3_000_000)
    assert math.isnan(entry.generator.lag_p99_ns) == (lag_p99_ns is None)


def test_a_closed_loop_waits_for_its_server_and_is_never_limited(profile: Profile) -> None:
    (entry,) = group([run_with(profile, CLOSED, missing=100, lag_p99_ns=10_000_000)])
    assert entry.kept_up
    assert entry.generator is not None
    assert math.isnan(entry.generator.offered_share)


def test_p999_takes_ten_thousand_replies_of_a_measured_run_and_none_of_a_simulated_one(
    profile: Profile,
) -> None:
    run = run_with(profile)
    assert math.isnan(figures_of_run(run).p999_ns)
    latency = run.result.latency_ns
    assert latency is not None
    longer = latency.model_copy(update={"p999": 5e6})
    result = run.result.model_copy(update={"latency_ns": longer})
    assert figures_of_run(run.model_copy(update={"result": result})).p999_ns == 5e6

    summary = summarise(simulated(OPEN, profile))
    assert summary.replied < 10_000
    assert figures_of_summary(summary).p999_ns == summary.connections.lifetime_ns.p999


def with_gaps(run: RunRecord, *gaps: tuple[int, int], **others: Any) -> RunRecord:
    """Return *run* with *gaps* of its generator's CPU: when they began, and how long they were."""
    at_ns, length_ns = ([each[i] for each in gaps] for i in (0, 1))
    recorded = Gaps(above_ns=50_000, n=99, lost_ns=9, at_ns=at_ns, length_ns=length_ns)
    return run.model_copy(update={"client_gaps": recorded, **others})


def test_gaps_of_before_a_run_are_not_played(profile: Profile) -> None:
    run = synthetic_run(OPEN, profile)
    held = with_gaps(run, (31_000_000, 1_100_000), (32_100_000, 1_100_000), (9_000, 60_000))
    ((seed, gaps),) = own_gaps_of([run, held])
    assert (seed, gaps.at_ns, gaps.length_ns) == (run.seed, (9_000,), (60_000,))


def test_gaps_of_the_untimed_part_are_not_played(profile: Profile) -> None:
    run = synthetic_run(OPEN, profile)
    begin_ns = run.warm_up_ns
    gaps = [(0, 9), (begin_ns - 100, 2_000_000), (begin_ns + 3_000_000, 60_000),
            (begin_ns + 4_900_000, 200_000), (begin_ns + 9_000_000, 70_000)]  # fmt: skip
    untimed, older = with_gaps(run, *gaps, untimed_ns=5_000_000), with_gaps(run, *gaps)
    ((_, left),) = own_gaps_of([untimed])
    assert list(zip(left.at_ns, left.length_ns, strict=True)) == [
        (0, 9),
        (begin_ns - 100, 100),
        (begin_ns + 5_000_000, 100_000),
        (begin_ns + 9_000_000, 70_000),
    ]
    ((_, every),) = own_gaps_of([older])
    assert list(zip(every.at_ns, every.length_ns, strict=True)) == gaps
