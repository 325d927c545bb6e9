"""The equal-CPU test: causes by hand, the points that allow it, the command and its page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from docs.making.accuracy import SUSPECTS_PAGE
from tests.lab import lab
from tests.validation.scoring.test_knee import curve

from dispatchsim.validation.report.reported import MACHINE, machine_scores
from dispatchsim.validation.report.scores_json import plain, point_score
from dispatchsim.validation.report.summary_tables import equal_cpu_text, server_and_idle
from dispatchsim.validation.scoring.equal_cpu import EqualCpu, allowing, equal_cpu
from dispatchsim.validation.scoring.scoring import Errors, PointScore


def point_with(at_equal_load: float, at_equal_cpu: float, share: float = 0.5) -> PointScore:
    """Return a point with errors of p50 given by hand."""
    (score, *_) = curve((1, 1, 1), (1, 1, 1), noise=0.05)
    return replace(
        score,
        load_share=share,
        errors=Errors(None, None, at_equal_load),
        p50_at_equal_cpu=at_equal_cpu,
        load_shift_cpu=-0.1,
    )


@pytest.mark.parametrize(
    ("at_equal_load", "at_equal_cpu", "cause"),
    [
        (0.04, 0.2, "right"),
        (0.3, 0.05, "costs too high"),
        (-0.3, 0.05, "costs too low"),
        (0.3, 0.15, "partly costs"),
        (-0.3, -0.25, "delays or model"),
        (0.3, 0.4, "delays or model"),
    ],
)
def test_what_remains_at_equal_cpu_is_no_cost(
    at_equal_load: float, at_equal_cpu: float, cause: str
) -> None:
    (found,) = equal_cpu([point_with(at_equal_load, at_equal_cpu)], lambda _: "poll")
    assert found._replace(noise=0.05) == EqualCpu(
        "poll", 1, 0.05, at_equal_load, at_equal_cpu, shift_cpu=-0.1
    )
    assert found.noise == pytest.approx(0.05)
    assert found.cause == cause


def test_points_of_the_fit_past_the_capacity_or_off_the_curve_do_not_count() -> None:
    good = point_with(0.3, 0.1)
    fitted: PointScore = replace(good, role="fit")
    others = [fitted, point_with(0.3, 0.1, share=1.1), replace(good, p50_at_equal_cpu=None)]
    assert allowing([*others, good]) == [good]
    assert equal_cpu(others, lambda _: "poll") == []
    assert equal_cpu_text([]) == ""


@pytest.mark.parametrize("kind", ["hardware", "observed"])
def test_a_file_of_scores_has_the_errors_of_its_report(kind: str, tmp_path: Path) -> None:
    scores = [point_with(0.3, 0.1), *curve((1, 10, 100), (1, 20, 100), mechanism="poll")]
    section = {"name": "mine", "points": [point_score(score) for score in scores]}
    path = tmp_path / "scores.json"
    path.write_text(json.dumps({kind: [plain(section)]}))
    read = machine_scores(path)["mine"]
    assert [(s.p50_at_equal_cpu, s.load_shift_cpu) for s in read] == [
        (s.p50_at_equal_cpu, s.load_shift_cpu) for s in scores
    ]
    assert [server_and_idle(s) for s in read] == [server_and_idle(s) for s in scores]
    done = lab("equal-cpu", path, "--points")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("mine:\nEqual-CPU test")


def test_a_file_without_scores_and_an_unknown_machine_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    for given in ("other.json", "missing.json"):
        done = lab("equal-cpu", tmp_path / given)
        assert done.exit_code == 2
        assert "SCORES: must be the scores.json of a report" in done.stderr
    assert "--machine: must be one of " in lab("equal-cpu", "--machine", "pdp-11").stderr


def test_the_example_of_the_page_is_what_the_command_prints() -> None:
    page = " ".join(SUSPECTS_PAGE.read_text(encoding="utf-8").split())
    for words in (
        "`epoll_level` at 17,300 requests/s keeps the CPU 77% busy",
        "8.0% less load, since at equal load it is 82% busy",
        "At equal load the forecast is 12% too high, at equal CPU 1.7% too low",
        "At 30 to 60% some 12 µs of p50 remain at each load",
    ):
        assert words in page
    printed = lab("equal-cpu", "--machine", MACHINE, "--points").stdout
    (row,) = (
        line.split()
        for line in printed.splitlines()
        if line.startswith("epoll_level, 0 idle ") and "17.3k" in line
    )
    assert row[3:] == ["17.3k", "70%", "77%", "82%", "115", "129", "+12%", "-8.0%", "-1.7%"]
    remaining_us = [
        score.p50_at_equal_cpu * score.measured.median.p50_ns / 1000
        for score in allowing(machine_scores(None)[MACHINE])
        if server_and_idle(score) == "epoll_level, 0 idle" and score.p50_at_equal_cpu
        if score.load_share and 0.25 < score.load_share < 0.65
    ]
    assert remaining_us == pytest.approx([12.0] * 4, abs=0.8)
