"""A fit gives a whole profile, and prices the request by the fit point alone."""

import numpy as np
import pytest
from tests.calibration.fit.synthetic_micro import micro_rounds

from dispatchsim.calibration.fit.fit import (
    fit_profile,
    fit_rates_per_s,
    machine_table,
    mixture_of_clients,
)
from dispatchsim.calibration.fit.fit_interrupts import interrupt_warnings
from dispatchsim.calibration.fit.medians import FitError
from dispatchsim.calibration.fit.request_fit import (
    simulated_rate_per_s,
    simulated_summary,
    solve_request_ns,
)
from dispatchsim.calibration.points.point import Point, Steering, point_at
from dispatchsim.calibration.points.points import (
    FIT_POINT,
    FIT_POINTS_OF,
    KEPT_FIT_POINT,
    MECHANISMS,
)
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import (
    ClientTimes,
    CpuTimes,
    ErrorCounts,
    MicroResult,
    ReplyRate,
    RunRecord,
    RunResult,
)
from dispatchsim.calibration.records.noise import QUIET
from dispatchsim.sim.state.costs import ApplicationCosts


def fit_run(
    rate_per_s: float,
    *,
    accepted: bool = True,
    point: Point = FIT_POINT,
    steering: Steering = "namespaces",
    replied: int = 1,
    interrupts: int = 0,
) -> RunRecord:
    rate = ReplyRate(min=rate_per_s, mean=rate_per_s, max=rate_per_s, sd=0)
    result = RunResult(
        offered=1,
        accepted=1,
        replied=replied,
        errors=ErrorCounts(),
        latency_ns=None,
        reply_rate_per_s=rate,
        calls={},
        cpu=CpuTimes(process_ns=1, busy_ns=1, softirq_ns=0, n_calls=interrupts),
        client=ClientTimes(cpu_ns=1, lag_p50_ns=0, lag_max_ns=0),
    )
    return RunRecord(
        date="2025-11-21T00:00:00+00:00",
        code="0",
        steering=steering,
        point=point,
        repeat=0,
        seed=1,
        warm_up_ns=1,
        window_ns=1,
        result=result,
        noise=QUIET,
        accepted=accepted,
        reason="",
    )


def profile_of(rates_per_s: list[float], rows: list[MicroResult] | None = None) -> Profile:
    return fit_profile(
        {"id": "a-machine", "kernel": "6.18", "caches": {"L2": "1M"}, "timer_hz": None},
        rows or micro_rounds(),
        [fit_run(rate) for rate in rates_per_s],
        replicates=20,
        simulated_ns=50_000_000,
    )


def test_the_request_is_priced_so_that_the_throughput_is_met() -> None:
    free = profile_of([1e6])
    costs = free.costs("epoll_level", open_connections=64)
    rate_per_s = simulated_rate_per_s(
        FIT_POINT,
        costs._replace(application=costs.application._replace(request_ns=5000)),
        free,
        30_000,
        50_000_000,
    )
    found = profile_of([rate_per_s, rate_per_s * 1.02, rate_per_s * 0.98])
    # A window of 50 ms holds some 1,500 replies, counted in batches of 32.
    (request_ns,) = found.cost["application"]["request_ns"].value
    assert request_ns == pytest.approx(5000, abs=800)
    cost = found.cost["application"]["request_ns"]
    assert cost.low[0] < request_ns < cost.high[0]


def test_a_kept_connection_is_counted_by_its_replies() -> None:
    profile = profile_of([1e6])
    costs = profile.costs("epoll_level", open_connections=64)
    costs = costs._replace(application=ApplicationCosts(0, connection_ns=100_000))
    once, kept = (
        simulated_rate_per_s(point, costs, profile, 10_000, 50_000_000)
        for point in (FIT_POINT, KEPT_FIT_POINT)
    )
    # What is of the connection is most of the time: nearly four replies where there was one.
    assert kept == pytest.approx(3.3 * once, rel=0.15)


def test_kept_connections_tell_what_is_of_the_connection() -> None:
    profile = profile_of([1e6])
    costs = profile.costs("epoll_level", open_connections=64)
    costs = costs._replace(application=ApplicationCosts(3_000, connection_ns=20_000))
    runs = [
        fit_run(simulated_rate_per_s(point, costs, profile, 30_000, 50_000_000), point=point)
        for point in (FIT_POINT, KEPT_FIT_POINT)
    ]
    found = fit_profile({}, micro_rounds(), runs, replicates=20, simulated_ns=50_000_000)
    application = found.cost["application"]
    assert application["request_ns"].value[0] == pytest.approx(3_000, abs=1_500)
    assert application["connection_ns"].value[0] == pytest.approx(20_000, abs=1_500)
    assert "requests 4" in application["connection_ns"].source
    assert application["connection_ns"].residual < 0.02


def test_handshakes_of_packet_clients_have_the_time_of_a_connection() -> None:
    def of_packets(row: MicroResult) -> MicroResult:
        """Return the row as packet clients have it: they acknowledge a reply after its write."""
        more: dict[str, object] = {"steering": "far_end", "written_ns": row.median}
        if row.bench == "write_flights":
            more |= {"median": row.median + 4_000, "interrupts_per_operation": 1.0}
        return MicroResult.model_validate(row.model_dump() | more)

    # Without the benches of cold caches, which have a part of that time.
    rows = [
        of_packets(row) for row in micro_rounds() if not row.bench.startswith(("paced_", "asked_"))
    ]
    machine = fit_profile({}, rows, [fit_run(1e6, steering="far_end")], replicates=5)
    costs = machine.costs("epoll_level", open_connections=64)
    costs = costs._replace(
        application=ApplicationCosts(3_000),
        interrupt=costs.interrupt._replace(displaced_ns=10_000),
    )
    runs = [
        fit_run(
            simulated_rate_per_s(point, costs, machine, 30_000, 50_000_000),
            point=point,
            steering="far_end",
        )
        for point in (FIT_POINT, KEPT_FIT_POINT)
    ]
    found = fit_profile({}, rows, runs, replicates=20, simulated_ns=50_000_000).cost
    # Where the time is spent changes how many packets share an interrupt: it is not found exactly.
    # With twice the time another division, 19% off, has the throughputs of both points, too.
    displaced = found["interrupt"]["displaced_ns"]
    assert displaced.residual < 0.01
    assert displaced.value[0] == pytest.approx(10_000, rel=0.1)
    assert found["application"]["request_ns"].value[0] == pytest.approx(3_000, abs=1_500)
    assert "connection_ns" not in found["application"]


def test_intervals_of_both_parts_hold_what_repeats_leave_open() -> None:
    kept_per_s = [40_000.0, 41_000.0, 39_000.0, 40_500.0]
    runs = [
        *map(fit_run, [20_000, 20_400, 19_600, 20_200]),
        *(fit_run(rate, point=KEPT_FIT_POINT) for rate in kept_per_s),
    ]
    found = fit_profile({}, micro_rounds(), runs, replicates=200, simulated_ns=50_000_000)
    for cost in found.cost["application"].values():
        assert cost.low[0] <= cost.value[0] < cost.high[0]


def test_a_single_round_of_a_noisy_machine_is_not_certain() -> None:
    def entry_width(spread: float) -> float:
        rows = [
            row.model_copy(
                update={"p10": row.median / (1 + spread), "p90": row.median * (1 + spread)}
            )
            for row in micro_rounds()
            if row.round == 0
        ]
        entry = profile_of([20_000.0], rows).cost["interrupt"]["entry_ns"]
        return entry.high[0] / entry.low[0] - 1

    assert entry_width(0) == 0
    assert 0.05 < entry_width(0.1) < entry_width(0.3)


def test_a_connection_cannot_take_more_than_there_is_to_share() -> None:
    runs = [fit_run(20_000), fit_run(1e6, point=KEPT_FIT_POINT)]
    found = fit_profile({}, micro_rounds(), runs, replicates=20, simulated_ns=50_000_000)
    application = found.cost["application"]
    whole_ns = profile_of([20_000]).cost["application"]["request_ns"].value
    assert application["request_ns"].value == (0,)
    # The two searches end within their step of each other.
    assert application["connection_ns"].value == pytest.approx(whole_ns, rel=0.01)
    assert "no share meets it: simulated -9" in application["connection_ns"].source


def test_a_server_faster_than_its_parts_has_a_free_request_and_says_so() -> None:
    cost = profile_of([1e6]).cost["application"]["request_ns"]
    assert (cost.value, cost.low) == ((0,), (0,))
    assert cost.residual > 0.5
    assert "0 is the least: simulated" in cost.source


def test_a_profile_of_a_fit_is_whole_and_says_where_it_comes_from() -> None:
    profile = profile_of([20_000])
    assert profile.name == "a-machine"
    assert profile.machine == {
        "id": "a-machine",
        "kernel": "6.18",
        "caches": "L2 1M",
        "date": "2025-11-21T00:00:00+00:00",
        "command": "dispatchsim calibrate",
    }
    assert profile.range.open_connections_max == 10_000
    assert [profile.missing_for(mechanism) for mechanism in MECHANISMS] == [()] * 3


def test_clients_that_differ_between_benches_and_runs_are_said() -> None:
    said: list[str] = []
    fit_profile(
        {"id": "a-machine"},
        micro_rounds(),
        [fit_run(20_000, steering="far_end")],
        replicates=20,
        simulated_ns=50_000_000,
        report=said.append,
    )
    (sentence,) = (line for line in said if "steering" in line)
    assert sentence == (
        "microbenchmarks with steering namespaces, fit points with far_end: their clients differ "
        "in kernel work, so the costs of packets do not fit the runs"
    )
    assert mixture_of_clients("far_end", [fit_run(1, steering="far_end")]) == []
    assert mixture_of_clients("", [fit_run(1, steering="far_end")]) == []


def test_benches_of_both_kinds_of_clients_are_no_table() -> None:
    rows = [*micro_rounds(), *micro_rounds(steering="far_end")]
    with pytest.raises(FitError, match="must be namespaces or far_end, got both"):
        profile_of([20_000], rows)


def test_intervals_hold_the_value_and_grow_with_the_noise() -> None:
    random = np.random.default_rng(1)

    def width(sd: float) -> float:
        rows = micro_rounds(7, noise=lambda: float(random.lognormal(0, sd)))
        cost = profile_of([20_000], rows).cost["call"]["accept_ns"]
        assert cost.low[0] <= cost.value[0] <= cost.high[0]
        return cost.high[0] / cost.low[0] - 1

    assert 0 < width(0.01) < 0.1 < width(0.2)


def test_a_target_may_have_a_fit_point_for_each_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    other = point_at(mechanism="poll", users=64)
    monkeypatch.setitem(FIT_POINTS_OF, "namespaces", (FIT_POINT, other))
    profile = fit_profile(
        {},
        micro_rounds(),
        [fit_run(20_000), fit_run(15_000, point=other)],
        replicates=20,
        simulated_ns=50_000_000,
    )
    request_ns = {
        name: profile.costs(name, open_connections=64).application.request_ns
        for name in ("select", "poll", "epoll_level")
    }
    assert request_ns["select"] == request_ns["epoll_level"]
    assert request_ns["poll"] - request_ns["select"] == pytest.approx(16_700, abs=2_000)
    assert "throughput of poll idle 0" in profile.cost["poll"]["request_ns"].source


FIT_POINT_OF = {point.server.mechanism: point for point in FIT_POINTS_OF["emulated"]}


def emulated_runs(*mechanisms: str) -> list[RunRecord]:
    return [fit_run(20_000, point=FIT_POINT_OF[name], steering="emulated") for name in mechanisms]


def test_a_fit_takes_the_fit_points_of_the_mechanisms_that_are_priced() -> None:
    runs = emulated_runs("poll", "epoll_level", "dev_poll")
    rates = fit_rates_per_s(runs, mechanisms=("epoll_level", "poll"))
    # The first gives what all share, in whatever order they were measured.
    assert [point.server.mechanism for point in rates] == ["epoll_level", "poll"]
    with pytest.raises(
        FitError, match=r"^fit\.jsonl: select idle 0 closed 64: must have at least 1 accepted"
    ):
        fit_rates_per_s(runs, mechanisms=("epoll_level", "select"))


def test_a_fit_passes_over_the_run_that_only_says_what_rates_are_fractions_of() -> None:
    rate_run = fit_run(10_000, steering="emulated")
    rates = fit_rates_per_s([rate_run, *emulated_runs("epoll_level")])
    assert rates == {FIT_POINT_OF["epoll_level"]: [20_000]}


@pytest.mark.parametrize(
    ("rate_per_s", "expected_ns"), [(25_000, 3_000), (40_000, 0), (10_000, 63_000)]
)
def test_the_solver_meets_a_saturated_server_at_once(rate_per_s: int, expected_ns: int) -> None:
    asked: list[int] = []

    def throughput_per_s(request_ns: int) -> float:
        asked.append(request_ns)
        return 1e9 / (37_000 + request_ns)

    assert solve_request_ns(throughput_per_s, rate_per_s).request_ns == expected_ns
    assert len(asked) <= 2


def test_the_solver_gets_past_a_bottleneck_at_the_clients() -> None:
    found = solve_request_ns(lambda ns: 1e9 / max(30_000, 12_000 + ns), 25_000)
    assert found.request_ns == pytest.approx(28_000, abs=40)


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], "epoll_level idle 0 closed 64: must have at least 1 accepted run with replies"),
        ([fit_run(1, accepted=False)], "run with replies, got 0 of 1"),
        (
            [fit_run(1, point=point_at(mechanism="poll", users=64))],
            "fit.jsonl: point: must be epoll_level idle 0 closed 64, epoll_level idle 0 closed 64 "
            "requests 4, got poll idle 0 closed 64: other points",
        ),
    ],
    ids=["none", "rejected", "held out"],
)
def test_a_fit_sees_only_accepted_runs_of_the_fit_point(
    runs: list[RunRecord], message: str
) -> None:
    with pytest.raises(FitError) as caught:
        fit_profile({}, micro_rounds(), runs)
    assert message in str(caught.value)


def test_facts_of_a_machine_are_plain() -> None:
    assert machine_table({"format": "x", "hypervisor": True, "cpu_count": 2, "odd": [1]}) == {
        "hypervisor": True,
        "cpu_count": 2,
        "odd": "[1]",
    }


@pytest.mark.parametrize(("factor", "n_warnings"), [(1.0, 0), (1.2, 0), (1.5, 1), (0.6, 1)])
def test_interrupts_that_disagree_at_a_fit_point_are_said(factor: float, n_warnings: int) -> None:
    profile = profile_of([1e6])
    costs = profile.costs("epoll_level", open_connections=64)
    calls = simulated_summary(FIT_POINT, costs, profile, 30_000, 50_000_000).calls
    replied, interrupts = calls["replies"], calls["interrupts"]
    assert interrupts > 0
    run = fit_run(30_000, replied=replied, interrupts=round(interrupts * factor))
    uncounted = fit_run(30_000, replied=replied)
    found = list(interrupt_warnings(profile, [run, uncounted], simulated_ns=50_000_000))
    assert len(found) == n_warnings
    if found:
        simulated, counted = interrupts / replied, round(interrupts * factor) / replied
        assert f"{simulated:.2f} interrupts a reply are simulated, {counted:.2f} were" in found[0]


@pytest.mark.parametrize(("accepted", "n_warnings"), [(True, 1), (False, 0)])
def test_a_fit_compares_the_interrupts_of_the_runs_that_it_used(
    accepted: bool, n_warnings: int
) -> None:
    said: list[str] = []
    many = fit_run(1e6, replied=1000, interrupts=100_000, accepted=accepted)
    runs = [fit_run(1e6), many]
    fit_profile({}, micro_rounds(), runs, replicates=5, simulated_ns=50_000_000, report=said.append)
    assert sum("100.00 were counted" in sentence for sentence in said) == n_warnings
