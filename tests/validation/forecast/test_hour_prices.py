"""A profile at the prices of the hour: which costs go with which bench."""

import pytest
from tests.validation.synthetic_runs import SHORT, synthetic_run, toy_profile

from dispatchsim.calibration.measure.surroundings import BENCHES, REFERENCE
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.records.measured_runs import MicroResult, RunRecord
from dispatchsim.validation.forecast.forecast import Request, forecasts
from dispatchsim.validation.forecast.hour_prices import (
    HourPrices,
    at_hour,
    calibration_prices,
    hour_prices,
    prices_beside,
)
from dispatchsim.validation.points.measured_points import group
from dispatchsim.validation.report.point_tables import hour_table
from dispatchsim.validation.scoring.regimes import CAPACITY, errors_beside
from dispatchsim.validation.scoring.scoring import score


def micro(command: str, median: float, *, round_number: int = 0) -> MicroResult:
    return MicroResult(
        date="2026-01-02T03:04:05+00:00",
        code="c",
        bench=command.partition(" ")[0],
        command=command,
        parameters={},
        round=round_number,
        unit="ns",
        median=median,
        p10=median,
        p90=median,
        operations=1,
    )


def run(**around: tuple[float, float]) -> RunRecord:
    profile = toy_profile()
    measured = synthetic_run(point_at(mechanism="poll", users=4), profile, lengths=SHORT)
    return measured.model_copy(update={"around": around or None})


AS_THEN = {"calls": (500.0, 500.0), "scan": (60.0, 60.0), "interrupt": (9000.0, 9000.0)}


def test_the_price_of_a_bench_is_the_sum_of_its_results_in_the_median_round() -> None:
    rows = [
        micro("serve_calls --batch 8", ns, round_number=number)
        for number, prices in enumerate([(100, 400), (150, 450), (90, 300)])
        for ns in prices
    ]
    rows += [micro("poll_scan --n 1000 --milliseconds 50", 60.0), micro("poll_scan --n 10", 5.0)]
    assert calibration_prices(rows) == {"calls": 500.0, "scan": 60.0}


def test_ratios_are_medians_over_runs_of_the_mean_before_and_after() -> None:
    calibrated = {name: prices[0] for name, prices in AS_THEN.items()}
    dear = AS_THEN | {"scan": (90.0, 150.0)}
    runs = [run(**AS_THEN), run(**dear), run(**dear)]
    assert hour_prices(runs, calibrated) == HourPrices(calls=1, scan=2, interrupt=1)


def test_leaving_idleness_is_what_an_idle_cpu_adds_to_a_handshake() -> None:
    def shaken(awake_ns: float, idle_ns: float) -> dict[str, tuple[float, float]]:
        return AS_THEN | {"handshake": (awake_ns,) * 2, "handshake_idle": (idle_ns,) * 2}

    calibrated = {name: prices[0] for name, prices in shaken(15_000, 19_000).items()}
    as_then, slow = run(**shaken(15_000, 19_000)), run(**shaken(23_000, 31_000))
    assert hour_prices([as_then], calibrated) == HourPrices(1, 1, 1, idle_exit=1)
    assert hour_prices([slow], calibrated) == HourPrices(1, 1, 1, idle_exit=2)
    assert hour_prices([run(**shaken(15_000, 14_000))], calibrated) == HourPrices(1, 1, 1, 0)
    assert hour_prices([as_then, run(**AS_THEN)], calibrated) == HourPrices(1, 1, 1)
    assert hour_prices([as_then], calibrated | {"handshake": 19_000}) == HourPrices(1, 1, 1)


def test_without_all_prices_there_is_no_hour() -> None:
    calibrated = {name: prices[0] for name, prices in AS_THEN.items()}
    assert hour_prices([], calibrated) is None
    assert hour_prices([run(**AS_THEN), run()], calibrated) is None
    assert hour_prices([run(**AS_THEN)], {"calls": 500.0}) is None


def test_each_cost_goes_with_the_bench_that_is_like_it() -> None:
    profile = toy_profile()
    changed = at_hour(profile, HourPrices(calls=2, scan=3, interrupt=5, idle_exit=7))
    for table, costs in profile.cost.items():
        for name, cost in costs.items():
            factor = 2
            if table in ("client", "network"):
                factor = 1
            elif name in ("idle_exit_ns", "idle_exit_since"):
                factor = 7
            elif table == "interrupt":
                factor = 5
            elif name in ("scan", "register", "bitmap"):
                factor = 3
            now = changed.cost[table][name]
            assert now.value == pytest.approx([ns * factor for ns in cost.value]), (table, name)
            assert now.high == pytest.approx([ns * factor for ns in cost.high])
    assert at_hour(profile, HourPrices(1, 1, 1)) == profile


def test_the_benches_are_those_of_the_ratios() -> None:
    assert set(BENCHES) == {"calls", "scan", "interrupt", "handshake", "handshake_idle"}


def test_the_price_beside_a_run_is_the_mean_before_and_after() -> None:
    assert prices_beside(run(**{REFERENCE: (40_000.0, 50_000.0)})) == {REFERENCE: 45_000}
    assert prices_beside(run()) == {}


def test_a_forecast_at_the_hours_prices_stands_beside_the_central_one() -> None:
    profile, point = toy_profile(), point_at(mechanism="poll", users=4)
    usual = Request(point, (1,), 2, SHORT)
    hourly = usual._replace(hour=HourPrices(calls=2, scan=2, interrupt=2))
    ((_, without), (_, beside)) = forecasts([usual, hourly], profile)
    assert without.at_hour is None
    assert beside.at_hour is not None
    assert (beside.central, beside.low, beside.high) == (without.central, without.low, without.high)
    # All costs of the server are doubled, and it waits less often, as more comes meanwhile.
    ratio = beside.at_hour.process_ns_per_request / beside.central.process_ns_per_request
    assert 1.7 < ratio < 2
    as_then = usual._replace(hour=HourPrices(1, 1, 1))
    ((_, same),) = forecasts([as_then], profile)
    assert same.at_hour == same.central


def test_errors_at_the_hour_are_of_the_points_whose_prices_are_known() -> None:
    slow, fast = toy_profile(name="slow", scale=1.5), toy_profile()
    points = [point_at(mechanism="poll", users=users) for users in (4, 8)]
    measured = group([synthetic_run(point, slow, lengths=SHORT) for point in points])
    prices = HourPrices(calls=1.5, scan=1.5, interrupt=1.5)
    requests = [
        Request(points[0], (points[0].seed(0),), 0, SHORT, hour=prices),
        Request(points[1], (points[1].seed(0),), 0, SHORT),
    ]
    found = {request.point: each for request, each in forecasts(requests, fast)}
    pairs = errors_beside(score(measured, found, {}), "at_hour")
    ((then, now),) = [pair for pair in pairs if pair[0].figure == CAPACITY]
    assert then.n == now.n == 1
    assert then.median > 0.3
    assert now.median == pytest.approx(0, abs=0.001)
    table = hour_table(pairs)
    assert len(table.rows) == len(pairs)
