"""Where p99 exceeds a bound, and by how much a forecast misses that, on curves made up by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dispatchsim.calibration.points.point import point_at
from dispatchsim.sim.figures.summary import Verdict
from dispatchsim.sim.state.units import MILLISECOND_NS
from dispatchsim.validation.forecast.forecast import Forecast
from dispatchsim.validation.points.figures import Figures
from dispatchsim.validation.points.measured_points import MeasuredPoint, Spread, Spreads
from dispatchsim.validation.report.point_tables import knee_table, regime_table
from dispatchsim.validation.scoring.knee import crossing, knee_errors, knees
from dispatchsim.validation.scoring.regimes import errors_beside, regime_errors, value_of
from dispatchsim.validation.scoring.scoring import Errors, Inside, PointScore

NAN = float("nan")
RATES = (10_000.0, 20_000.0, 30_000.0)


def figures(p99_ms: float) -> Figures:
    return Figures(NAN, NAN, NAN, p99_ms * MILLISECOND_NS / 2, p99_ms * MILLISECOND_NS, NAN)


def entry(
    rate_per_s: float, measured_ms: float, forecast_ms: float, *, noise: float, mechanism: str
) -> PointScore:
    """Return a point whose p99, and p50 of half that, scatter by the share *noise*."""
    point = point_at(mechanism=mechanism, loop="open", rate_per_s=rate_per_s)

    def spread(value_ns: float) -> Spread:
        return Spread(value_ns * (1 - noise), value_ns * (1 + noise), NAN)

    return PointScore(
        measured=MeasuredPoint(
            point=point,
            median=figures(measured_ms),
            spread=Spreads(*map(spread, figures(measured_ms))),
            n_accepted=3,
            n_rejected=0,
            seeds=(),
            warm_up_ns=0,
            window_ns=0,
            offered_per_s=rate_per_s,
            verdict=Verdict.STABLE,
        ),
        forecast=Forecast(
            point=point,
            central=figures(forecast_ms),
            low=figures(NAN),
            high=figures(NAN),
            verdict=Verdict.STABLE,
            seeds=(),
            draws=0,
        ),
        role="offered",
        load_share=rate_per_s / 25_000,
        p50_counts=False,
        errors=Errors(None, None, None),
        inside=Inside(None, None, None),
        p50_at_equal_cpu=None,
        load_shift_cpu=None,
        load_shift_p50=None,
        baseline_errors={},
    )


def curve(
    measured_ms: Sequence[float],
    forecast_ms: Sequence[float],
    *,
    noise: float = 0.0,
    mechanism: str = "epoll_level",
) -> list[PointScore]:
    values = zip(RATES, measured_ms, forecast_ms, strict=True)
    return [entry(*each, noise=noise, mechanism=mechanism) for each in values]


def test_a_bound_is_passed_between_two_loads_and_the_shift_is_of_loads() -> None:
    # From 1 to 100 ms in 10,000/s: 10 ms halfway, in the logarithm.
    (knee,) = knees(curve((1, 100, 1000), (1, 1, 100)), [10 * MILLISECOND_NS])
    assert knee.measured_per_s == pytest.approx(15_000)
    assert knee.forecast_per_s == pytest.approx(25_000)
    assert knee.shift == pytest.approx(25 / 15 - 1)
    assert knee.judged
    assert not knee.judged.in_noise


def test_noise_is_what_the_repeats_leave_open() -> None:
    # Repeats within a factor of 1.9 and 0.1: 10 ms is passed from 13,600/s to 20,000/s.
    (knee,) = knees(curve((1, 100, 1000), (1, 50, 1000), noise=0.9), [10 * MILLISECOND_NS])
    assert knee.low_per_s == pytest.approx(10_000 + 10_000 * math.log(10 / 1.9) / math.log(100))
    assert knee.high_per_s == pytest.approx(20_000)
    assert knee.judged
    assert knee.judged.in_noise


@pytest.mark.parametrize("measured_ms", [(8, 20, 100), (1, 2, 15)])
def test_noise_beyond_the_rates_that_were_measured_is_open(measured_ms: tuple[int, ...]) -> None:
    # Half as much again passes 10 ms before the first rate; half as much, after the last one.
    (knee,) = knees(curve(measured_ms, measured_ms, noise=0.5), [10 * MILLISECOND_NS])
    assert None in (knee.low_per_s, knee.high_per_s)
    assert knee.judged
    assert knee.judged.in_noise


@pytest.mark.parametrize(
    ("measured_ms", "forecast_ms", "in_noise"),
    [
        ((8, 20, 100), (9.5, 20, 100), None),  # the noise has no lower end
        ((8, 20, 100), (1, 20, 100), True),  # but an upper one, at 20,000/s
        ((8, 20, 100), (1, 2, 100), False),
        ((1, 2, 15), (1, 2, 10.5), None),  # the noise has no upper end
        ((1, 2, 15), (1, 11, 15), False),
    ],
)
def test_on_the_side_of_an_open_end_the_noise_is_unknown(
    measured_ms: Sequence[float], forecast_ms: Sequence[float], in_noise: bool | None
) -> None:
    (knee,) = knees(curve(measured_ms, forecast_ms, noise=0.5), [10 * MILLISECOND_NS])
    assert knee.judged
    assert knee.judged.in_noise is in_noise
    (row,) = knee_errors([knee])
    assert row.n_repeated == (in_noise is not None)
    table = knee_table([row])
    cells = dict(zip([c.heading for c in table.columns], table.rows[0], strict=True))
    expected = {None: "unknown", True: "1/1", False: "0/1"}
    assert cells["within noise"] == expected[in_noise]


def test_one_run_a_point_has_no_noise() -> None:
    (knee,) = knees(curve((1, 100, 1000), (1, 100, 1000), noise=NAN), [10 * MILLISECOND_NS])
    assert knee.shift == 0
    assert knee.judged == (0, None, "within 15%")
    (row,) = knee_errors([knee])
    assert (row.n_in_noise, row.n_repeated, row.n_missed) == (0, 0, 0)
    assert "unknown" in knee_table([row]).rows[0]


def test_a_curve_that_does_not_pass_is_counted_and_not_extended() -> None:
    found = knees(
        [
            *curve((1, 100, 1000), (1, 2, 3)),
            *curve((1, 2, 3), (1, 100, 1000), mechanism="poll"),
            *curve((1, 100, 1000), (1, 100, 1000), mechanism="select")[:2],
        ],
        [10 * MILLISECOND_NS],
    )
    assert [knee.shift for knee in found] == [None, None]
    # Each of the other curves passes beyond the last rate, 30,000/s.
    assert [knee.least_shift for knee in found] == pytest.approx([30 / 15 - 1, 15 / 30 - 1])
    (row,) = knee_errors(found)
    assert (row.n, row.only_measured, row.only_forecast, row.n_missed) == (2, 1, 1, 2)
    assert (row.n_within, row.n_repeated) == (0, 0)
    assert row.median == pytest.approx(1.0)  # a factor of two, both ways
    assert crossing([(1.0, 0.0), (2.0, 5e6), (3.0, NAN)], 1e6) is None


def test_a_curve_that_begins_above_the_bound_passes_before_the_first_rate() -> None:
    found = knees(curve((1, 100, 1000), (20, 100, 1000)), [10 * MILLISECOND_NS])
    assert [knee.least_shift for knee in found] == pytest.approx([10 / 15 - 1])
    # 10 ms is passed at 29,900/s, and by the forecast beyond 30,000/s: how far, nobody knows.
    (row,) = knee_errors(knees(curve((1, 2, 10.1), (1, 2, 3)), [10 * MILLISECOND_NS]))
    assert (row.n, row.n_within, row.n_missed) == (1, 0, 0)
    # One is above the bound at all rates, the other below: at least from one end to the other.
    across = knees(curve((20, 30, 40), (1, 2, 3)), [10 * MILLISECOND_NS])
    assert [knee.least_shift for knee in across] == [30 / 10 - 1]
    assert knee_errors(across)[0].n_missed == 1
    for same in ((1, 2, 3), (20, 30, 40)):
        assert knees(curve(same, same), [10 * MILLISECOND_NS])[0].least_shift is None


def test_a_forecast_that_answers_nobody_is_above_every_bound() -> None:
    (knee,) = knees(curve((1, 2, 100), (1, 2, NAN)), [10 * MILLISECOND_NS])
    assert knee.forecast_per_s == pytest.approx(20_000)  # the last rate at which anybody is
    (all_lost,) = knees(curve((1, 2, 100), (NAN, NAN, NAN)), [10 * MILLISECOND_NS])
    assert all_lost.forecast_end_per_s == 10_000


def test_errors_of_a_bound_are_of_all_servers() -> None:
    found = knees(
        [
            *curve((1, 100, 1000), (1, 1, 100)),
            *curve((1, 100, 1000), (1, 100, 1000), mechanism="poll"),
        ],
        [10 * MILLISECOND_NS],
    )
    (row,) = knee_errors(found)
    assert (row.n, row.n_in_noise) == (2, 1)
    assert row.signed == pytest.approx((25 / 15 - 1) / 2)
    assert row.median == pytest.approx((25 / 15) ** 0.5 - 1)  # between the factors 1 and 25/15
    assert row.worst == pytest.approx(25 / 15 - 1)


def test_regimes_are_scored_apart() -> None:
    rows = regime_errors(curve((1, 10, 100), (0.4, 11, 300), noise=0.2))
    assert [row.figure for row in rows] == ["p50_ns", "p50_ns", "p99_ns", "p99_ns"]
    assert [row.n for row in rows] == [2, 1, 2, 1]
    quiet, past = rows[2:]
    assert (quiet.n_within, quiet.n_in_noise, quiet.n_repeated, quiet.n_missed) == (1, 1, 2, 1)
    # 0.4 is a factor of 2.5, which is in the middle with 1.1: the size of one that is too low.
    assert quiet.median == pytest.approx((2.5 * 1.1) ** -0.5 - 1)
    assert quiet.worst == pytest.approx(-0.6)
    assert past.signed == pytest.approx(2)


def test_a_forecast_without_a_reply_counts_as_missed_and_has_no_size() -> None:
    scores = curve((1, 10, 100), (1, NAN, 150))
    rows = {row.regime: row for row in regime_errors(scores) if row.figure == "p99_ns"}
    quiet, past = rows["no queue: up to 80% of capacity"], rows["past the capacity"]
    assert (quiet.n, quiet.n_within, quiet.n_missed, quiet.n_no_reply) == (2, 1, 1, 1)
    assert (quiet.median, quiet.signed, quiet.worst) == (0, 0, 0)
    assert (past.n, past.n_missed, past.n_no_reply) == (1, 1, 0)
    table = regime_table(regime_errors(scores))
    assert table.columns[-1].heading == "no reply"
    assert [row[-1] for row in table.rows] == ["1", "0", "1", "0"]
    every_reply = regime_table(regime_errors(curve((1, 10, 100), (1, 1, 1))))
    assert every_reply.columns[-1].heading == "missed"


def test_a_figure_that_a_forecast_with_replies_lacks_is_not_judged() -> None:
    (score, *_) = curve((1, 10, 100), (1, 10, 100))
    measured = replace(score.measured, median=score.measured.median._replace(p999_ns=2e6))
    assert value_of(replace(score, measured=measured), "p999_ns") is None


def test_errors_side_by_side_are_of_the_points_at_which_both_forecasts_have_one() -> None:
    # The other forecast has no reply at 20,000/s, and is none of the first server's at 10,000/s.
    first, *others = curve((1, 10, 100), (2, 20, 100))
    with_other = [
        replace(s, forecast=replace(s.forecast, with_own_gaps=figures(p99_ms)))
        for s, p99_ms in zip(others, (NAN, 300), strict=True)
    ]
    near = curve((1, 10, 100), (1.5, 9, 100), mechanism="poll")[0]
    both = replace(near, forecast=replace(near.forecast, with_own_gaps=figures(1.2)))
    pairs = errors_beside([first, *with_other, both], "with_own_gaps")
    assert errors_beside([first, *with_other, both], "with_other_gaps", "with_own_gaps") == []
    p99 = {a.regime: (a, b) for a, b in pairs if a.figure == "p99_ns"}
    assert {regime: (a.n, b.n) for regime, (a, b) in p99.items()} == {
        "no queue: up to 80% of capacity": (1, 1),
        "past the capacity": (1, 1),
    }
    assert [row.signed for row in p99["no queue: up to 80% of capacity"]] == pytest.approx(
        [0.5, 0.2]
    )
    assert [row.signed for row in p99["past the capacity"]] == pytest.approx([0, 2])


def test_noise_is_counted_over_points_that_were_repeated() -> None:
    scores = [
        *curve((1, 1, 1), (1, 1, 3), noise=NAN),
        *curve((1, 1, 1), (1.01, 1.1, 1.1), noise=0.05, mechanism="poll"),
    ]
    cells = {row[:2]: row[6:] for row in regime_table(regime_errors(scores)).rows}
    p99 = "p99 response time, µs"
    assert cells[p99, "up to 80% of capacity"] == ("1/2", "4/4", "0")
    assert cells[p99, "above the capacity"] == ("0/1", "1/2", "1")
    one_run = regime_table(regime_errors(scores[:3])).rows
    assert {row[6] for row in one_run} == {"one run"}


def test_throughput_is_scored_where_it_is_the_servers() -> None:
    offered, over, closed = curve((1, 1, 1), (1, 1, 1))
    served = over.measured.median._replace(throughput_per_s=100.0)
    point = point_at(mechanism="epoll_level", users=8)

    def at_capacity(score: PointScore, **measured: Any) -> PointScore:
        central = served._replace(throughput_per_s=90.0)
        return replace(
            score,
            role="capacity",
            measured=replace(score.measured, median=served, **measured),
            forecast=replace(score.forecast, central=central),
        )

    rows = regime_errors([offered, at_capacity(over), at_capacity(closed, point=point)])
    found = {row.regime: row for row in rows if row.figure == "throughput_per_s"}
    assert list(found) == ["no queue: up to 80% of capacity", "closed loops"]
    assert [row.signed for row in found.values()] == pytest.approx([-0.1, -0.1])
    assert "closed loops" not in {row.regime for row in rows if row.figure == "p99_ns"}


def test_tables_say_factors_where_an_error_is_beyond_two() -> None:
    scores = curve((1, 10, 100), (0.4, 11, 300))
    (past,) = [
        row
        for row in regime_table(regime_errors(scores)).rows
        if row[:2] == ("p99 response time, µs", "above the capacity")
    ]
    assert past[3:6] == ("x3", "x3", "x3")
    quiet = regime_table(regime_errors(curve((1, 10, 100), (0.2, 2, 300)))).rows[0]
    assert quiet[3:6] == ("/5", "/5", "/5")
    assert [row[:2] for row in knee_table(knee_errors(knees(scores))).rows] == [
        ("1 ms", "1"), ("5 ms", "1"), ("20 ms", "1"), ("50 ms", "1"),
    ]  # fmt: skip


def test_events_per_wait_are_a_row_in_open_and_in_closed_loops() -> None:
    quiet, _, closed = curve((1, 1, 1), (1, 1, 1))

    def returning(score: PointScore, measured: float, forecast: float, **more: Any) -> PointScore:
        of_measured = score.measured.median._replace(events_per_wait=measured)
        central = score.forecast.central._replace(events_per_wait=forecast)
        return replace(
            score,
            measured=replace(score.measured, median=of_measured, **more),
            forecast=replace(score.forecast, central=central),
        )

    point = point_at(mechanism="epoll_level", users=8)
    rows = regime_errors([returning(quiet, 2, 3), returning(closed, 8, 6, point=point)])
    events = {row.regime: row.signed for row in rows if row.figure == "events_per_wait"}
    assert events == {"no queue: up to 80% of capacity": 0.5, "closed loops": -0.25}
    shown = [row[:2] for row in regime_table(rows).rows if row[0] == "events per wait"]
    assert shown == [
        ("events per wait", "up to 80% of capacity"),
        ("events per wait", "closed loops"),
    ]
