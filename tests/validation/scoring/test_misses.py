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
    knee_allowance,
    knee_coverage,
    knee_coverage_by,
    knee_misses,
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


def test_the_shipped_loads_at_which_p99_breaks_are_those_of_the_report() -> None:
    for name, known in shipped_misses().items():
        kept_up = [score for score in reported_scores(name) if score.measured.kept_up]
        reported = knee_misses(knee_loads(kept_up))
        assert len(reported) > 20
        for one, other in zip(known.knees, reported, strict=True):
            assert (one.mechanism, one.bound_ns) == (other.mechanism, other.bound_ns)
            assert one.error == pytest.approx(other.error, abs=1e-4)  # the table has six digits


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
        "point": {"mechanism": "poll"},
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
            ),
            # What both delivered is what was offered, and what is unknown or 0 is no ratio.
            Miss("poll", 0.5, {"cpu_busy": 0.336472}),
        ]
    }


def test_misses_are_read_as_they_were_written(tmp_path: Path) -> None:
    given = [*misses([0.5, -0.25]), Miss("select", 1.0, dict.fromkeys(FIGURES, 0.125))]
    errors = MachineErrors(0.05, 0.2, None, -0.1)
    knees = [KneeMiss("poll", 20_000_000, 9_000.0, 12_000.5, is_end=False)]
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
}
BAD_KNEES: list[object] = [3, [{}], [NO_LOAD]]
NO_KNEES = [json.dumps({"format": FORMAT, "points": [], "knees": knees}) for knees in BAD_KNEES]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "x"}', *NO_KNEES])
def test_what_is_no_file_of_misses_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(content)
    with pytest.raises(ProfileError, match=r"m\.json: must be a file of forecast errors"):
        read_file(path)


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
