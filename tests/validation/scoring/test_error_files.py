"""Files of forecast errors: from a report, back from the file, and of which machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.lab import lab
from tests.validation.synthetic_runs import toy_profile

from dispatchsim.calibration.profiles.cost_profile import ProfileError
from dispatchsim.calibration.profiles.published_errors import MachineErrors, read_errors
from dispatchsim.validation.report.reported import reported_scores
from dispatchsim.validation.report.scores_json import knee_loads, plain, point_score
from dispatchsim.validation.scoring.error_files import (
    FORMAT,
    knee_misses,
    misses_for,
    misses_of,
    read_file,
    shipped_misses,
    write_misses,
)
from dispatchsim.validation.scoring.misses import FIGURES, KneeMiss, Known, Miss
from dispatchsim.validation.scoring.regimes import machine_errors

from .made_up_errors import misses


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


def test_three_machines_were_measured_with_application_work() -> None:
    with_work = {
        name: (
            sum(point.stated > 0 for point in known.points),
            sum(knee.stated > 0 for knee in known.knees if knee.bound_ns == 20_000_000),
        )
        for name, known in shipped_misses().items()
    }
    assert {name: n for name, n in with_work.items() if n != (0, 0)} == {
        "epyc-family25-model1-2cpu-linux-6.18": (46, 10),
        "epyc-family25-model17-2cpu-linux-6.18": (45, 10),
        "xeon-family6-model207-2cpu-linux-6.18": (41, 10),
    }


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
        "regimes": [
            {"figure": "throughput_per_s", "regime": "past the capacity", "median": 0.3},
            {"figure": "throughput_per_s", "regime": "closed loops", "median": -0.05},
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
    told = r"misses/4.*misses/3.*`dispatchsim lab forecast-errors"
    with pytest.raises(ProfileError, match=told) as failure:
        read_file(path)
    assert str(failure.value).count("must be a file of forecast errors") == 1


def test_what_is_no_report_is_not_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_text("[]")
    done = lab("forecast-errors", path)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: SCORES: must be the scores.json of a report")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for that of the shipped misses."""
    monkeypatch.setattr("dispatchsim.validation.scoring.error_files.MISSES_FOLDER", tmp_path)
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
    assert found.is_of_others == (name == "c")
    for kind in ("quick", "borrowed"):
        (folder / f"b.{kind}.json").unlink()
    # Before any of these kinds was scored, the misses are those of the machine that was.
    expected = shipped_misses()["a"].points if name != "c" else found.points
    assert misses_for(profile)[0].points == expected
