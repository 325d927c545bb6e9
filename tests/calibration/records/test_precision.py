"""When a point is known well enough: the interval of the median over its accepted repeats."""

import math

import numpy as np
import pytest

from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.records.measured_runs import (
    ClientTimes,
    CpuTimes,
    ErrorCounts,
    Gaps,
    ReplyRate,
    RunRecord,
    RunResult,
)
from dispatchsim.calibration.records.noise import QUIET
from dispatchsim.calibration.records.precision import (
    FIGURES,
    by_point,
    half_width,
    interval_of_median,
    noise_text,
    widest,
)

POLL = point_at(mechanism="poll", users=4)
SELECT = point_at(mechanism="select", users=4)


def test_the_interval_of_a_median_holds_it_and_shrinks_with_more_repeats() -> None:
    values = np.random.default_rng(7).normal(100, 5, 64).tolist()
    few, many = interval_of_median(values[:8]), interval_of_median(values)
    for (low, high), own in ((few, values[:8]), (many, values)):
        assert low <= float(np.median(own)) <= high
    assert many[1] - many[0] < few[1] - few[0]
    assert half_width(values) == pytest.approx((many[1] - many[0]) / 2 / np.median(values))


def test_one_run_says_nothing_of_its_scatter() -> None:
    assert all(math.isnan(end) for end in interval_of_median([3.0]))
    assert math.isnan(half_width([3.0]))
    assert math.isnan(half_width([]))


def runs(*replied: int, accepted: bool = True) -> list[RunRecord]:
    """Return runs that differ in their replies; the CPU is as busy in all of them."""
    return [
        RunRecord(
            date="2026-01-02T03:04:05+00:00",
            code="c",
            steering="namespaces",
            point=POLL,
            repeat=i,
            seed=1,
            warm_up_ns=10**8,
            window_ns=10**9,
            result=RunResult(
                offered=n,
                accepted=n,
                replied=n,
                errors=ErrorCounts(),
                latency_ns=None,
                reply_rate_per_s=ReplyRate(min=n, mean=n, max=n, sd=0),
                calls={},
                cpu=CpuTimes(process_ns=1, busy_ns=10**8, softirq_ns=0),
                client=ClientTimes(cpu_ns=1, lag_p50_ns=0, lag_max_ns=0),
            ),
            noise=QUIET,
            accepted=accepted,
            reason="" if accepted else "steal_share",
        )
        for i, n in enumerate(replied)
    ]


def test_a_point_needs_three_accepted_runs_close_to_each_other() -> None:
    assert widest([], FIGURES) == math.inf
    assert widest(runs(1000, 1000), FIGURES) == math.inf
    assert widest([*runs(1000, 1000), *runs(1000, accepted=False)], FIGURES) == math.inf
    assert widest(runs(1000, 1000, 1000), FIGURES) == 0
    assert widest(runs(970, 1000, 1030), FIGURES) == pytest.approx(0.03, abs=0.005)
    assert widest(runs(900, 1000, 1100), FIGURES) > 0.05


def test_the_words_name_what_is_known_what_was_rejected_and_what_more_runs_it_takes() -> None:
    gaps = Gaps(above_ns=20_000, n=9, lost_ns=0, at_ns=[], length_ns=[])
    known = [
        run.model_copy(
            update={
                "client_gaps": gaps.model_copy(
                    update={"lost_ns": (run.warm_up_ns + run.window_ns) // 50}
                )
            }
        )
        for run in runs(1000, 1000, 1000)
    ]
    unsure = [
        run.model_copy(update={"point": SELECT})
        for run in (*runs(900, 1000, 1100), *runs(5, accepted=False))
    ]
    text = noise_text(by_point([*known, *unsure]).values(), 0.03, FIGURES)
    assert text.startswith("1 of 2 points are known to 3%; 1 of 7 runs were rejected; ")
    assert "the host kept the client's CPU for 2.0% of the time" in text
    factor = float(text.split("half of the others need ")[1].split()[0])
    assert factor == pytest.approx((widest(unsure, FIGURES) / 0.03) ** 2, abs=0.06)
