"""What forecasts missed, and whether intervals made of it hold what they say."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab import lab
from tests.validation.synthetic_runs import toy_profile

from dispatchsim.calibration.profiles.cost_profile import ProfileError
from dispatchsim.calibration.profiles.published_errors import MachineErrors, read_errors
from dispatchsim.validation.report.reported import reported_scores
from dispatchsim.validation.report.scores_json import knee_loads, plain, point_score
from dispatchsim.validation.scoring.misses import (
    FIGURES,
    FORMAT,
    Allowance,
    KneeMiss,
    Known,
    Miss,
    allowance,
    coverage,
    coverage_by,
    knee_allowance,
    knee_coverage,
    knee_coverage_by,
    knee_misses,
    measured_factor,
    misses_for,
    misses_of,
    read_file,
    shipped_misses,
    write_misses,
)
from dispatchsim.validation.scoring.regimes import machine_errors


def misses(values: list[float], mechanism: str = "poll", utilisation: float = 0.5) -> list[Miss]:
    return [Miss(mechanism, utilisation, {"p50_answered_ns": value}) for value in values]


@pytest.mark.parametrize("draw", ["normal", "lognormal", "standard_cauchy"])
def test_an_interval_holds_a_further_miss_whatever_their_distribution(draw: str) -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(2000):
        *known, new = getattr(rng, draw)(size=60).tolist()
        allowed = allowance(misses(known), "p50_answered_ns", 0.9)
        assert allowed is not None
        inside += allowed.low <= new <= allowed.high
    assert 0.88 < inside / 2000 < 0.93


@given(st.lists(st.floats(-5, 5), min_size=19, max_size=60))
def test_an_interval_grows_with_its_level(values: list[float]) -> None:
    narrow, wide = (allowance(misses(values), "p50_answered_ns", level) for level in (0.5, 0.9))
    assert narrow is not None
    assert wide is not None
    assert wide.low <= narrow.low <= narrow.high <= wide.high


def test_too_few_misses_give_no_interval() -> None:
    assert allowance(misses([0.0] * 18), "p50_answered_ns", 0.9) is None
    assert allowance(misses([0.0] * 19), "p50_answered_ns", 0.9) == Allowance(0.0, 0.0, 0.0, 19)
    assert allowance(misses([0.0] * 40), "p99_answered_ns", 0.9) is None


def test_a_mechanism_is_judged_by_the_others() -> None:
    # Each mechanism misses by its own amount: no interval of the others holds it.
    given = [m for k in range(4) for m in misses([float(k)] * 40, f"mechanism {k}")]
    assert coverage(given, "p50_answered_ns") == (80, 160)  # the two in the middle
    assert coverage(misses([1.0] * 40), "p50_answered_ns") == (0, 0)  # no others


def test_the_shipped_misses_are_those_of_the_report() -> None:
    shipped = shipped_misses()
    sections = [
        {"name": name, "points": [plain(point_score(s)) for s in reported_scores(name)]}
        for name in shipped
    ]
    reported = misses_of({"hardware": sections})
    assert all(len(each) > 100 for each in reported.values())
    for name, known in shipped.items():
        own = known.points
        assert [miss.mechanism for miss in own] == [miss.mechanism for miss in reported[name]]
        for one, other in zip(own, reported[name], strict=True):
            assert one.of == pytest.approx(other.of, abs=1e-5)  # the table has six digits
            assert one.stated == pytest.approx(other.stated, abs=1e-5)


def test_the_shipped_loads_at_which_p99_breaks_are_those_of_the_report() -> None:
    for name, known in shipped_misses().items():
        kept_up = [score for score in reported_scores(name) if score.measured.kept_up]
        reported = knee_misses(knee_loads(kept_up))
        assert len(reported) > 20
        for one, other in zip(known.knees, reported, strict=True):
            assert (one.mechanism, one.bound_ns) == (other.mechanism, other.bound_ns)
            assert one.error == pytest.approx(other.error, abs=1e-4)  # the table has six digits
            assert one.stated == pytest.approx(other.stated, abs=1e-4)


def test_one_machine_was_measured_with_application_work() -> None:
    with_work = {
        name: (
            sum(point.stated > 0 for point in known.points),
            sum(knee.stated > 0 for knee in known.knees if knee.bound_ns == 20_000_000),
        )
        for name, known in shipped_misses().items()
    }
    assert {name: n for name, n in with_work.items() if n != (0, 0)} == {
        "epyc-family25-model17-2cpu-linux-6.18": (45, 10)
    }


errors_of_costs = st.floats(-2, 2)
shares = st.floats(0, 0.99)


@given(errors_of_costs, shares, st.floats(1e3, 1e6))
def test_costs_in_error_are_part_of_the_work_of_a_request(
    error: float, share: float, forecast_ns: float
) -> None:
    work_ns, cost_ns = share * forecast_ns, (1 - share) * forecast_ns
    # The CPU time of a request, and its inverse, the throughput of a full CPU.
    measured_ns = work_ns + cost_ns * math.exp(error)
    assert measured_factor("cpu_busy", error, share) == pytest.approx(measured_ns / forecast_ns)
    measured_ns = work_ns + cost_ns / math.exp(error)
    assert measured_factor("throughput_per_s", error, share) == pytest.approx(
        forecast_ns / measured_ns
    )


@given(st.sampled_from(list(FIGURES)), errors_of_costs, shares)
def test_application_work_keeps_the_direction_of_an_error_and_lessens_it(
    figure: str, error: float, share: float
) -> None:
    whole = math.log(measured_factor(figure, error, share))
    assert min(0, error) - 1e-9 <= whole <= max(0, error) + 1e-9
    assert measured_factor(figure, error, 0.0) == pytest.approx(math.exp(error))
    assert measured_factor(figure, error, 1.0) == 1


@given(
    st.sampled_from(list(FIGURES)),
    st.lists(errors_of_costs, min_size=19, max_size=40),
    st.lists(st.tuples(st.floats(-9, 9), st.floats(0.01, 1)), max_size=40),
)
def test_points_with_application_work_never_move_an_interval(
    figure: str, of_costs: list[float], diluted: list[tuple[float, float]]
) -> None:
    plain = [Miss("poll", 1.0, {figure: error}) for error in of_costs]
    with_work = [Miss("poll", 1.0, {figure: error}, share) for error, share in diluted]
    assert allowance([*with_work, *plain], figure) == allowance(plain, figure)
    knees = [knee(error) for error in of_costs]
    knees_with_work = [knee(error)._replace(stated=share) for error, share in diluted]
    assert knee_allowance(Known(knees=[*knees_with_work, *knees]), 20e6) == knee_allowance(
        Known(knees=knees), 20e6
    )


def test_errors_with_application_work_alone_give_no_interval() -> None:
    assert allowance([Miss("poll", 1.0, {"cpu_busy": 0.1}, 0.5)] * 40, "cpu_busy") is None
    assert knee_allowance(Known(knees=[knee(0.1)._replace(stated=0.5)] * 40), 20e6) is None


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("has_work", [False, True])
def test_coverage_is_nominal_if_work_lessens_the_median_error_but_not_the_spread(
    figure: str, *, has_work: bool
) -> None:
    rng = np.random.default_rng(1)

    def drawn(share: float) -> Miss:
        middle = math.log(measured_factor(figure, 0.5, share))
        whole = middle + rng.normal(0.0, 0.3)
        return Miss(f"mechanism {rng.integers(10)}", 1.0, {figure: whole}, share)

    plain = [drawn(0.0) for _ in range(400)]
    with_work = [drawn(rng.uniform(0.2, 0.9)) for _ in range(1_600)] if has_work else []
    inside, total = coverage([*plain, *with_work], figure)
    assert total == 400 + 1_600 * has_work
    assert 0.87 < inside / total < 0.93
    if has_work:
        # As errors of costs they would be too small in the median.
        as_costs = [miss._replace(stated=0.0) for miss in with_work]
        inside, total = coverage_by(plain, as_costs, figure)
        assert inside / total < 0.8


@given(st.sampled_from(list(FIGURES)), errors_of_costs, st.floats(0, 2), st.floats(0, 2), shares)
def test_application_work_lessens_the_median_error_and_keeps_the_spread(
    figure: str, middle: float, below: float, above: float, share: float
) -> None:
    given = Allowance(middle - below, middle, middle + above, 19)
    found = given.beside_work(figure, share)
    assert found.middle == pytest.approx(math.log(measured_factor(figure, middle, share)))
    assert found.middle - found.low == pytest.approx(below, abs=1e-9)
    assert found.high - found.middle == pytest.approx(above, abs=1e-9)
    assert given.beside_work(figure, 0.0) == pytest.approx(given)


def knee(error: float, bound_ms: int = 20, mechanism: str = "poll") -> KneeMiss:
    return KneeMiss(mechanism, bound_ms * 1_000_000, 1_000 * math.exp(error), 1_000, is_end=False)


def test_knees_of_the_nearest_bound_say_how_far_off_a_further_one_may_be() -> None:
    own = [knee(0.01 * i, 20) for i in range(19)] + [knee(5.0, 1)] * 30
    found = knee_allowance(Known(knees=own), 35e6)
    assert found is not None
    assert found.bound_ns == 20_000_000  # 50 ms is nearer, but nobody scored it
    assert found.allowed == pytest.approx((0.0, 0.09, 0.18, 19))
    assert not found.is_of_others


def test_few_knees_have_mean_and_spread() -> None:
    few = [knee(error) for error in (0.1, 0.2, 0.3, 0.4, 0.5)]
    found = knee_allowance(Known(knees=few), 20e6)
    assert found is not None
    # Student's t of four degrees of freedom, 2.132, times 0.1581 x sqrt(1 + 1/5).
    assert found.allowed == pytest.approx((0.3 - 0.3692, 0.3, 0.3 + 0.3692, 5), abs=1e-3)
    assert knee_allowance(Known(knees=few[1:]), 20e6) is None
    assert knee_allowance(Known(knees=few), 60e6) is not None
    assert knee_allowance(Known(knees=few), 61e6) is None  # another bound than was scored
    assert knee_allowance(Known(knees=few), 6e6) is None
    assert knee_allowance(Known(), 20e6) is None


def test_a_machine_without_knees_of_its_own_has_those_of_others() -> None:
    others = [knee(-1.0)] * 40
    found = knee_allowance(Known(other_knees=others), 20e6)
    assert found is not None
    assert found.is_of_others
    assert found.allowed.middle == pytest.approx(-1.0)
    assert knee_allowance(Known(other_knees=others[:18]), 20e6) is None
    assert knee_allowance(Known(knees=[knee(0.1)], other_knees=others), 20e6) is None


def test_a_load_beyond_the_measured_ones_is_counted_as_such() -> None:
    ends = [knee(0.1)._replace(is_end=True)] * 3
    found = knee_allowance(Known(knees=[*ends, *[knee(0.2)] * 4]), 20e6)
    assert found is not None
    assert (found.allowed.n, found.n_least) == (7, 3)


def test_an_error_of_which_the_least_size_is_inside_is_not_judged() -> None:
    given = [knee(0.1 * i, mechanism="poll") for i in range(30)]
    inside = knee(1.5, mechanism="select")._replace(is_end=True)
    outside = knee(9.0, mechanism="kqueue")._replace(is_end=True)
    assert knee_coverage_by(Known(knees=given), [inside]) == (0, 0)
    assert knee_coverage_by(Known(knees=given), [outside]) == (0, 1)


def test_a_knee_with_application_work_is_judged_around_the_lesser_median() -> None:
    given = [knee(0.1 * i, mechanism="poll") for i in range(31)]  # median 1.5, 90%: 0 ... 3
    # With half of the time the application's, the median error is log(2 / (1 + exp(-1.5))) = 0.49.
    half = [knee(error, mechanism="select")._replace(stated=0.5) for error in (-0.9, 1.9, 2.1)]
    assert knee_coverage_by(Known(knees=given), half) == (2, 3)


def test_a_knee_is_judged_by_other_mechanisms() -> None:
    given = [knee(float(k), mechanism=f"mechanism {k}") for k in range(4) for _ in range(25)]
    assert knee_coverage(given) == (50, 100)  # the two in the middle
    assert knee_coverage([knee(0.0)] * 30) == (0, 0)  # no others


def made_up(
    role: str,
    forecast: list[float | None],
    measured: list[float | None],
    *,
    kept_up: bool = True,
) -> dict[str, Any]:
    """Return a point of a report by throughput, CPU, p50 and p99."""
    names = FIGURES.values()
    return {
        "role": role,
        "point": {"mechanism": "poll", "request_work_ns": 2_000_000},
        "measured": {
            "median": dict(zip(names, measured, strict=True)),
            "generator_kept_up": kept_up,
        },
        "forecast": {"central": dict(zip(names, forecast, strict=True))},
    }


def test_a_miss_is_what_was_measured_over_the_forecast() -> None:
    points = [
        made_up("fit", [100.0, 1.0, 10.0, 20.0], [900.0, 1.0, 90.0, 90.0]),
        made_up("capacity", [100.0, 1.0, 10.0, 20.0], [900.0, 1.0, 90.0, 90.0], kept_up=False),
        made_up("held out", [100.0, 0.9, 10.0, 20.0], [200.0, 0.8, 5.0, 20.0]),
        made_up("offered", [100.0, 0.5, 10.0, None], [101.0, 0.7, 0.0, 30.0]),
    ]
    assert misses_of({"hardware": [{"name": "toy", "points": points}]}) == {
        "toy": [
            Miss(
                "poll",
                0.9,
                {
                    "throughput_per_s": 0.693147,
                    "cpu_busy": -0.117783,  # 0.8 of 0.9
                    "p50_answered_ns": -0.693147,
                    "p99_answered_ns": 0.0,
                },
                stated=0.222222,  # 100/s of 2 ms each, of 0.9 CPUs
            ),
            # What both delivered is what was offered, and what is unknown or 0 is no ratio.
            Miss("poll", 0.5, {"cpu_busy": 0.336472}, stated=0.4),
        ]
    }


def test_misses_are_read_as_they_were_written(tmp_path: Path) -> None:
    given = [*misses([0.5, -0.25]), Miss("select", 1.0, dict.fromkeys(FIGURES, 0.125), 0.25)]
    errors = MachineErrors(0.05, 0.2, None, -0.1)
    knees = [KneeMiss("poll", 20_000_000, 9_000.0, 12_000.5, is_end=False, stated=0.75)]
    path = write_misses("m", given, tmp_path, knees=knees, errors=errors)
    assert read_file(path) == Known(given, knees)
    assert json.loads(path.read_text())["errors"]["knee"] == -0.1


def test_published_errors_are_medians_of_one_section() -> None:
    section = {
        "points": [
            {"role": "capacity", "errors": {"throughput": error}} for error in (-0.3, -0.05, 0.02)
        ]
        + [{"role": "fit", "errors": {"throughput": 0.9}}],
        "regimes": [
            {"figure": "p50_ns", "regime": "no queue: up to 80% of capacity", "median": 0.2},
            {"figure": "p99_ns", "regime": "past the capacity", "median": 9.0},
        ],
        "knees": [
            {"bound_ns": 5_000_000, "median": None},
            {"bound_ns": 20_000_000, "median": -0.1},
        ],
    }  # fmt: skip
    assert machine_errors(section) == pytest.approx(MachineErrors(-0.05, 0.2, None, -0.1))


def test_a_machine_that_was_never_validated_has_no_errors() -> None:
    assert read_errors("pdp-11") is None
    assert all(errors and errors.capacity for errors in map(read_errors, shipped_misses()))


NO_LOAD = {
    "mechanism": "poll",
    "bound_ns": 1,
    "measured_per_s": 0,
    "forecast_per_s": 1,
    "is_end": 0,
    "stated": 0,
}
BAD_KNEES: list[object] = [3, [{}], [NO_LOAD]]
NO_KNEES = [json.dumps({"format": FORMAT, "points": [], "knees": knees}) for knees in BAD_KNEES]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "x"}', *NO_KNEES])
def test_what_is_no_file_of_misses_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(content)
    with pytest.raises(ProfileError, match=r"m\.json: must be a file of forecast errors"):
        read_file(path)


def test_a_file_of_an_older_format_names_the_command_that_writes_it_anew(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"format": "dispatchsim-misses/3", "knees": [], "points": []}')
    with pytest.raises(ProfileError, match=r"misses/4.*misses/3.*`dispatchsim lab forecast-errors"):
        read_file(path)


def on_curve(rate_per_s: float, p99_ms: tuple[float, float], work_ns: int = 0) -> dict[str, Any]:
    """Return a point of an older report by measured and forecast p99, at half of a busy CPU."""
    return {
        "point": {
            "mechanism": "poll", "loop": "open", "rate_per_s": rate_per_s,
            "request_work_ns": work_ns,
        },
        "measured": {"median": {"p99_ns": p99_ms[0] * 1e6}, "generator_kept_up": True},
        "forecast": {
            "central": {
                "p99_ns": p99_ms[1] * 1e6, "throughput_per_s": rate_per_s, "cpu_busy": 0.5,
            }
        },
    }  # fmt: skip


def test_knees_of_older_reports_have_the_application_work_of_their_server() -> None:
    rates_per_s = (1_000.0, 2_000.0, 3_000.0)
    plain = [on_curve(rate, (1, 2 + rate / 1_000)) for rate in rates_per_s]
    times_ms = [(1.0, 1.0), (1.0, 100.0), (1.0, 200.0)]
    with_work = [
        on_curve(rate, p99_ms, 100_000) for rate, p99_ms in zip(rates_per_s, times_ms, strict=True)
    ]
    found = {
        "mechanism": "poll", "bound_ns": 10_000_000, "measured_per_s": 3_000.0,
        "forecast_per_s": 1_500.0, "is_end": True,
    }  # fmt: skip
    (error,) = knee_misses([found], [*plain, *with_work])
    assert error.stated == 0.3  # 1500/s of 100 us each, of 0.5 CPUs
    with pytest.raises(ValueError, match="one server must have the knee"):
        knee_misses([found], plain)


def test_what_is_no_report_is_not_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_text("[]")
    done = lab("forecast-errors", path)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: SCORES: must be the scores.json of a report")


def test_the_coverage_is_printed() -> None:
    printed = lab("forecast-errors").stdout
    assert all(name[:20] in printed for name in shipped_misses())
    assert "% of 179" in printed
    assert "each machine left out in turn" in printed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for that of the shipped misses."""
    monkeypatch.setattr("dispatchsim.validation.scoring.misses.MISSES_FOLDER", tmp_path)
    for name, error in (("a", 0.1), ("b", 0.2), ("b.quick", 0.3), ("b.borrowed", 0.4)):
        write_misses(name, [Miss("poll", 0.5, {"cpu_busy": error})], tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "facts", "errors", "words"),
    [
        ("a", {}, [0.1], ""),
        ("c", {}, [0.1, 0.2], "past errors are those of other machines"),
        ("a", {"measured": "quickly"}, [0.3], "a was measured quickly"),
        (
            "a, clock x 2",
            {"changed_from": "a"},
            [0.4],
            "this hardware was not measured: the profile is scaled from a",
        ),
    ],
)
def test_a_profile_has_the_misses_of_its_kind(
    folder: Path, name: str, facts: dict[str, str], errors: list[float], words: str
) -> None:
    assert set(shipped_misses()) == {"a", "b"}
    profile = toy_profile(name=name).model_copy(update={"machine": facts})
    found, notes = misses_for(profile)
    assert [miss.of["cpu_busy"] for miss in found.points] == errors
    assert words in " ".join(notes)
    for kind in ("quick", "borrowed"):
        (folder / f"b.{kind}.json").unlink()
    # Before any of these kinds was scored, the misses are those of the machine that was.
    expected = shipped_misses()["a"].points if name != "c" else found.points
    assert misses_for(profile)[0].points == expected
