"""How far the accepted repeats of a point scatter, and when it is known well enough."""

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
    noise_text,
    range_of_repeats,
    widest,
)

POLL = point_at(mechanism="poll", users=4)
SELECT = point_at(mechanism="select", users=4)


def test_the_scatter_of_many_is_an_interval_of_the_median_that_shrinks_with_more() -> None:
    values = np.random.default_rng(7).normal(100, 5, 64).tolist()
    few, many = range_of_repeats(values[:8]), range_of_repeats(values)
    for (low, high), own in ((few, values[:8]), (many, values)):
        assert min(own) < low <= float(np.median(own)) <= high < max(own)
    assert many[1] - many[0] < few[1] - few[0]


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_scatter_of_few_is_their_range(n: int) -> None:
    assert range_of_repeats([100.0, 90.0, 105.0, 101.0, 99.0][:n]) == (90, (100, 105)[n > 2])


def test_how_well_a_mean_is_known_is_students_interval() -> None:
    # t of two degrees of freedom is 4.303 at 97.5%.
    assert half_width([99.0, 100.0, 101.0]) == pytest.approx(4.303 / math.sqrt(3) / 100, rel=1e-3)
    covered = 0
    for values in np.random.default_rng(5).normal(100, 5, (2000, 3)):
        covered += abs(values.mean() - 100) <= half_width(values.tolist()) * values.mean()
    assert covered / 2000 == pytest.approx(0.95, abs=0.015)


def test_one_run_says_nothing_of_its_scatter() -> None:
    assert all(math.isnan(end) for end in range_of_repeats([3.0]))
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
    assert widest(runs(1000, 1000, 1000), FIGURES) == pytest.approx(0)
    assert widest(runs(988, 1000, 1012), FIGURES) == pytest.approx(0.03, abs=0.001)
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
    assert "the client's CPU was lost for 2.0% of the time" in text
    # Half of Student's interval is 4.303 * 100 / sqrt(3) of 1000: 8.28 times too wide.
    assert "half of the others with 3 runs need at most 68.6 times as many runs" in text
    assert "fewer than" not in text
    few = [run.model_copy(update={"point": SELECT}) for run in runs(900, 1000)]
    only_few = noise_text(by_point([*known, *few]).values(), 0.03, FIGURES, "loads")
    assert only_few.endswith("; 1 load has fewer than 3 accepted runs")
    assert "of the others" not in only_few
    text = noise_text([known, unsure, few, few], 0.03, FIGURES)
    assert text.endswith(
        "; half of the others with 3 runs need at most 68.6 times as many runs; "
        "2 points have fewer than 3 accepted runs"
    )


def test_gaps_of_before_a_run_are_not_lost_time_of_it() -> None:
    (run,) = runs(1000)
    a_tenth_ns = (run.warm_up_ns + run.window_ns) // 10
    gaps = Gaps(
        above_ns=50_000,
        n=900,
        lost_ns=9 * a_tenth_ns,
        at_ns=[9_000_000, 1_000],
        length_ns=[1_100_000, a_tenth_ns],
    )
    text = noise_text([[run.model_copy(update={"client_gaps": gaps})]], 0.03, FIGURES)
    assert "the client's CPU was lost for 10.0% of the time" in text
