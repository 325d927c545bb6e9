"""Forecasts: what each interval is of, and what is said where nobody has measured."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pictures import check_picture

import dispatchsim as ds
from dispatchsim.calibration.profiles.cost_profile import shipped
from dispatchsim.calibration.profiles.hardware_change import HardwareChange, changed
from dispatchsim.studies.stated import Stated, stated_of
from dispatchsim.validation.scoring.misses import FIGURES, Miss, allowance

from .exact import known_exactly
from .small import scenario


def test_an_interval_holds_the_draws_and_the_misses(profile: ds.Profile) -> None:
    ratio = math.log(1.5)
    misses = [Miss("poll", 0.2, dict.fromkeys(FIGURES, sign * ratio)) for sign in (-1, 1)] * 20
    answer = ds.forecast(scenario(), draws=5, misses=misses, profile=profile)
    by_figure = {each.figure: each for each in answer.expected}
    p99 = by_figure["p99_answered_ns"]
    assert p99.missed == pytest.approx((p99.mean / 1.5, p99.mean * 1.5))
    assert p99.low == pytest.approx(min(p99.calibration[0], p99.mean / 1.5))
    assert p99.high == pytest.approx(max(p99.calibration[1], p99.mean * 1.5))
    busy = by_figure["cpu_busy"]
    assert busy.missed is not None
    assert busy.missed[1] == pytest.approx(min(1.0, busy.mean * 1.5))
    assert answer.warnings == ()
    check_picture(answer.plot())
    assert list(answer.frame.index) == [each.figure for each in answer.expected]


def test_a_forecast_is_centred_on_the_median_of_past_misses(profile: ds.Profile) -> None:
    # Nine in ten forecasts were a tenth too high, one was right: what was simulated is no centre.
    of_most, of_few = math.log(0.9), 0.0
    misses = [Miss("poll", 0.2, dict.fromkeys(FIGURES, of_most))] * 45
    misses += [Miss("poll", 0.2, dict.fromkeys(FIGURES, of_few))] * 5
    answer = ds.forecast(scenario(), draws=5, misses=misses, profile=profile)
    (p99,) = [each for each in answer.expected if each.figure == "p99_answered_ns"]
    assert p99.mean == pytest.approx(0.9 * p99.simulated)
    assert p99.low < p99.mean < p99.high
    assert p99.low == pytest.approx(0.9 * p99.calibration[0])
    (busy,) = [each for each in answer.expected if each.figure == "cpu_busy"]
    assert busy.mean == pytest.approx(0.9 * busy.simulated)
    assert answer.to_dict()["expected"][0]["simulated"] == answer.expected[0].simulated


def test_the_ends_of_percentiles_are_in_order_of_rank(profile: ds.Profile) -> None:
    # p99 was up to 50 times too high, the median at most a tenth: p99 keeps what p50 allows.
    wide = {"p99_answered_ns": math.log(0.02), "p50_answered_ns": math.log(0.9)}
    misses = [Miss("poll", 0.2, wide), Miss("poll", 0.2, dict.fromkeys(wide, 0.0))] * 20
    answer = ds.forecast(scenario(), draws=5, misses=misses, profile=profile)
    known = {each.figure: each for each in answer.expected}
    median, p99 = known["p50_answered_ns"], known["p99_answered_ns"]
    assert median.missed is not None
    assert p99.missed is not None
    assert median.missed[0] == pytest.approx(0.9 * median.simulated)
    assert p99.missed[0] == pytest.approx(0.9 * median.simulated)
    for low, high in zip(
        (median.low, median.mean, median.high, *median.calibration),
        (p99.low, p99.mean, p99.high, *p99.calibration),
        strict=True,
    ):
        assert low <= high
    assert all(each.low <= each.mean <= each.high for each in (median, p99))


def test_misses_leave_alone_what_the_scenario_states(profile: ds.Profile) -> None:
    # All that was missed was half as much as forecast; 100 us of the application are 100 us.
    misses = [Miss("poll", 0.2, dict.fromkeys(FIGURES, math.log(0.5)))] * 40
    works = {"mechanism": "poll", "request_cpu": "100 us"}
    asked = scenario(server=works, network={"delay": "10 ms"})
    answer = ds.forecast(asked, draws=3, misses=misses, profile=profile)
    known = {each.figure: each for each in answer.expected}
    busy, per_s = known["cpu_busy"], known["throughput_per_s"].simulated
    application = 100e-6 * per_s
    assert busy.mean == pytest.approx(application + (busy.simulated - application) / 2)
    # Connecting takes a round trip, and the only request another; the rest is as the CPU time.
    median_ns = known["p50_answered_ns"]
    factor = busy.mean / busy.simulated
    assert median_ns.mean == pytest.approx(40e6 + (median_ns.simulated - 40e6) * factor)
    assert median_ns.mean > 40e6 + 100e3


@given(st.sampled_from(sorted(FIGURES)), st.floats(-1, 1), st.floats(0, 0.99))
def test_the_error_of_costs_recovers_what_a_server_with_application_work_measured(
    figure: str, error: float, share: float
) -> None:
    # Of a forecast request of 1 us the application takes a share; the rest has the error.
    slower = -1 if figure == "throughput_per_s" else 1
    request_us = share + (1 - share) * math.exp(slower * error)
    measured = 0.3 * request_us**slower
    of_costs = [Miss("poll", 1.0, {figure: error})] * 19
    whole = [Miss("poll", 1.0, {figure: math.log(measured / 0.3)}, share or 0.1)] * 19
    allowed = allowance([*of_costs, *whole], figure)
    assert allowed is not None
    here = allowed.beside_work(figure, share)
    assert Stated().measured(figure, 0.3, here.middle) == pytest.approx(measured)
    assert Stated().simulated(figure, measured, here.middle) == pytest.approx(0.3)


def test_a_forecast_of_much_application_work_rests_on_few_runs(profile: ds.Profile) -> None:
    misses = [Miss("poll", 0.2, dict.fromkeys(FIGURES, 0.1))] * 40
    for request_cpu, known, n in (("0 us", misses, 0), ("100 us", misses, 1), ("100 us", [], 0)):
        asked = scenario(server={"mechanism": "poll", "request_cpu": request_cpu})
        warnings = ds.forecast(asked, draws=3, misses=known, profile=profile).warnings
        assert sum("the rule for the interval rests on" in each for each in warnings) == n


def test_no_more_replies_are_forecast_than_the_applications_work_permits(
    profile: ds.Profile,
) -> None:
    misses = [Miss("poll", 1.0, dict.fromkeys(FIGURES, n / 20)) for n in range(41)]
    asked = scenario(
        server={"mechanism": "epoll_level", "request_cpu": "400 us"},
        load={"loop": "open", "rate": "2600/s"},
    )
    known = {
        each.figure: each
        for each in ds.forecast(asked, draws=3, misses=misses, profile=profile).expected
    }
    replies = known["throughput_per_s"]
    assert replies.missed is not None
    assert replies.missed[1] > 2_500  # 1 CPU, 400 us
    assert replies.low <= replies.mean <= replies.high == pytest.approx(2_500)


def test_no_past_errors_are_in_the_response_times_of_a_backend(profile: ds.Profile) -> None:
    # All was half as much as forecast: the 20 ms of the backend are no cost of the server's.
    misses = [Miss("poll", 0.2, dict.fromkeys(FIGURES, math.log(0.5)))] * 40
    asked = scenario(
        load={"loop": "open", "rate": "1000/s"}, backend={"delay": "20 ms", "connections": 100}
    )
    answer = ds.forecast(asked, draws=3, misses=misses, profile=profile)
    known = {each.figure: each for each in answer.expected}
    median = known["p50_answered_ns"]
    assert median.missed is None
    assert median.mean == median.simulated > 20e6
    assert known["p99_answered_ns"].missed is None
    assert known["cpu_busy"].mean == pytest.approx(known["cpu_busy"].simulated / 2)
    (warning,) = answer.warnings
    assert warning.startswith("past forecast errors come from servers without a backend")


def test_a_forecast_unlike_all_that_was_measured_says_so(profile: ds.Profile) -> None:
    load = {"loop": "open", "rate": "1000/s"}
    narrow = (
        "the interval may be too narrow: past errors were measured with one CPU and new "
        "connections, but this scenario has "
    )
    kept, several = {"load": {**load, "connections": 50}}, {"machine": {"cpus": 2}}
    for sections, expected in (
        ({"load": load}, []),
        (kept, [f"{narrow}connections kept open"]),
        ({"load": load, **several}, [f"{narrow}several CPUs"]),
        ({**kept, **several}, [f"{narrow}several CPUs and connections kept open"]),
    ):
        warnings = ds.forecast(scenario(**sections), draws=3, misses=[], profile=profile).warnings
        found = [each for each in warnings if "new connections" in each or "narrow" in each]
        assert found == expected


def test_nothing_is_stated_of_users_of_classes_that_differ() -> None:
    # Fast users bring most of the requests, each on a connection of its own; by the numbers of
    # users one request in 50.5 would open one, and 7% of the CPU time be the application's.
    clients = [
        {"share": 0.5, "requests": 1, "think_time": "10 ms"},
        {"share": 0.5, "requests": 100, "think_time": "1 s"},
    ]
    server = {"mechanism": "poll", "request_cpu": "20 us", "connection_cpu": "300 us"}
    asked = scenario(
        server=server,
        load={"loop": "closed", "users": 100},
        network={"delay": "1 ms"},
        clients=clients,
    )
    stated = stated_of(asked, 50, 0.9)
    assert stated.share == 0
    assert stated.wait_of("p99_ns") == 2e6


def test_what_a_mixture_of_replies_takes_is_stated() -> None:
    # SPECweb99's replies have 0.35 * 512 + 0.5 * 5,120 + 0.14 * 51,200 + 0.01 * 512,000 = 15,027
    # bytes in the mean.
    server = {"mechanism": "poll", "reply_cpu_per_kb": "10 us"}
    load = {"loop": "open", "rate": "2000/s", "reply_mix": "specweb99"}
    asked = scenario(server=server, load=load)
    assert stated_of(asked, 2_000, 0.5).share == pytest.approx(2_000 * 150.27e-6 / 0.5, rel=1e-3)
    # Four of five requests are of a class with 1000 bytes.
    clients = [
        {"share": 0.8, "requests": 1, "reply_size": "1 kB"},
        {"share": 0.1, "requests": 2, "reply_size": "10 kB"},
        {"share": 0.1, "requests": 6, "reply_size": "100 kB"},
    ]
    classed = scenario(server=server, load={"loop": "open", "rate": "1000/s"}, clients=clients)
    # A connection brings 0.8 + 2 + 60 kB.
    assert stated_of(classed, 100, 0.5).share == pytest.approx(100 * 62.8 * 10e-6 / 0.5)


def test_round_trips_on_paths_are_stated() -> None:
    paths = [
        {"share": 0.5, "delay": "1 ms"},
        {"share": 0.3},
        {"share": 0.2, "delay": "40 ms"},
    ]
    stated = stated_of(scenario(network={"delay": "2 ms"}, path=paths), 5_000, 0.5)
    # Connecting takes a round trip, and the request another: two of 4 ms on the link alone.
    assert stated.wait_of("p20_ns") == 8e6
    assert stated.wait_of("p50_ns") == 8e6 + 4e6
    assert stated.wait_of("p99_answered_ns") == 8e6 + 160e6
    assert stated.wait_of("mean_answered_ns") == 8e6 + 0.5 * 4e6 + 0.2 * 160e6
    named = [{"name": "near"}, {"name": "far", "delay": "40 ms"}]
    clients = [
        {"share": 0.9, "requests": 1, "path": "near"},
        {"share": 0.1, "requests": 91, "path": "far"},
    ]
    classed = scenario(network={"delay": "2 ms"}, path=named, clients=clients)
    # Nine of ten requests come from far, on connections that are open.
    assert classed.requests_each == 10
    assert stated_of(classed, 5_000, 0.5).wait_of("p5_ns") == 4e6
    assert stated_of(classed, 5_000, 0.5).wait_of("p50_ns") == 4e6 + 80e6


def test_misses_are_those_of_points_as_busy(profile: ds.Profile) -> None:
    wide, narrow = dict.fromkeys(FIGURES, 2.0), dict.fromkeys(FIGURES, 0.0)
    misses = [Miss("poll", 1.0, wide)] * 40 + [Miss("poll", 0.1, narrow)] * 40
    answer = ds.forecast(scenario(), draws=3, misses=misses, profile=profile)
    assert all(each.missed == (each.mean, each.mean) for each in answer.expected)


def test_costs_that_are_known_leave_only_the_arrivals(profile: ds.Profile) -> None:
    exact = known_exactly(profile, but={})
    users = scenario(load={"loop": "closed", "users": 8})
    answer = ds.forecast(users, draws=4, misses=[], profile=exact)
    for each in answer.expected:
        assert each.low == pytest.approx(each.high) == pytest.approx(each.mean)
        assert each.missed is None
    assert any("too few runs were measured for a 90% interval" in w for w in answer.warnings)


def test_a_machine_that_was_never_validated_says_so(profile: ds.Profile) -> None:
    answer = ds.forecast(scenario(), draws=3, profile=profile)
    assert any("no forecast of made-up was compared with" in w for w in answer.warnings)
    # Below capacity a server answers what it is offered: of that nothing was missed.
    missing = [each.figure for each in answer.expected if each.missed is None]
    assert missing == ["throughput_per_s"]
    validated = next(iter(shipped().values()))
    assert ds.forecast(scenario(), draws=3, profile=validated).warnings == ()
    faster = changed(validated, HardwareChange(clock=2.0))
    (warning,) = ds.forecast(scenario(), draws=3, profile=faster).warnings
    assert warning.endswith(f"past errors are those of {validated.name}")


def test_shares_are_shares_and_an_overload_is_told(profile: ds.Profile) -> None:
    overload = scenario(load={"loop": "open", "rate": "90000/s"})
    answer = ds.forecast(overload, draws=4, misses=[], profile=profile)
    (busy,) = [each for each in answer.expected if each.figure == "cpu_busy"]
    assert busy.low <= busy.high <= 1
    assert any(warning.startswith("overloaded: ") for warning in answer.warnings)


def test_a_latency_that_nobody_has_has_no_interval(profile: ds.Profile) -> None:
    load = {"loop": "open", "rate": "5000/s", "timeout": "1 ms"}
    nobody = scenario(load=load, idle={"connections": 200_000})
    answer = ds.forecast(nobody, draws=3, misses=[], profile=profile)
    (p99,) = [each for each in answer.expected if each.figure == "p99_answered_ns"]
    assert math.isnan(p99.low)
    assert math.isnan(p99.high)
    assert any("some runs have no reply" in warning for warning in answer.warnings)


def test_what_is_asked_wrongly_is_said(profile: ds.Profile) -> None:
    with pytest.raises(ds.UserError, match=r"level: must be from 0\.5 to 0\.99, got 1"):
        ds.forecast(scenario(), level=1, profile=profile)
    with pytest.raises(ds.UserError, match="cost samples: must be at least 3, got 1"):
        ds.forecast(scenario(), draws=1, profile=profile)
