"""A profile against its owner's runs: what is scored, what is marked, what is left out, and why."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.pictures import check_picture
from tests.validation.synthetic_observed import LENGTHS, observed, with_application
from tests.validation.synthetic_runs import toy_profile

from dispatchsim.calibration.observed.application_fit import fit_application
from dispatchsim.calibration.observed.observed_run import Habits
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import DataError
from dispatchsim.validation.forecast.observed_points import observed_points
from dispatchsim.validation.report.observed_section import (
    ObservedSection,
    observed_figures,
    observed_section,
    print_observed,
    write_observed,
)
from dispatchsim.validation.report.point_tables import observed_tables
from dispatchsim.validation.scoring.scoring import PointScore
from dispatchsim.validation.scoring.targets import ranked_pairs

HABITS = Habits("epoll_level")
FITTED = point_at(mechanism="epoll_level", users=32)
KEPT = point_at(FITTED, requests=20)
UNSEEN = [
    point_at(mechanism="poll", users=32),
    point_at(mechanism="poll", users=32, idle=1000),
    *(point_at(mechanism="epoll_level", loop="open", rate_per_s=r) for r in (8_000.0, 9_000.0)),
]


@pytest.fixture(scope="module")
def machine() -> Profile:
    """Return the prices of a machine, and no server."""
    return with_application(toy_profile(), 0, 0)


@pytest.fixture(scope="module")
def truth(machine: Profile) -> Profile:
    """Return what a server of known costs takes there."""
    return with_application(machine, 12_000, 20_000)


@pytest.fixture(scope="module")
def fitted_path(machine: Profile, truth: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of the profile that was fitted to two points."""
    runs = [observed(p, truth, repeat=k) for p in (FITTED, KEPT) for k in range(2)]
    fit = fit_application(machine, runs, HABITS, name="mine", simulated_ns=LENGTHS.window_ns)
    path = tmp_path_factory.mktemp("profile") / "mine.toml"
    fit.profile.write(path)
    return path


@pytest.fixture(scope="module")
def section(truth: Profile, fitted_path: Path) -> ObservedSection:
    runs = [observed(p, truth, repeat=k) for p in (FITTED, *UNSEEN) for k in range(2)]
    return observed_section("toy-server", runs, fitted_path, HABITS, draws=3)


def test_a_server_of_known_costs_is_forecast_where_nobody_has_fitted(
    section: ObservedSection,
) -> None:
    assert section.capacity.n_points == 2
    assert section.capacity.worst is not None
    assert section.capacity.worst < 0.03
    assert [s.role for s in section.scores] == ["fit", "capacity", "capacity", "offered", "offered"]


def test_open_loops_are_compared_at_equal_load_equal_utilisation_and_as_a_load_shift(
    section: ObservedSection,
) -> None:
    for entry in section.scores[-2:]:
        assert entry.errors.p50 == pytest.approx(0, abs=0.15)
        assert entry.p50_at_equal_cpu == pytest.approx(0, abs=0.15)
        assert entry.load_shift_cpu == pytest.approx(0, abs=0.03)
        assert entry.load_share is not None


def test_points_that_separate_are_ranked(section: ObservedSection) -> None:
    assert {pair.aspect for pair in section.pairs} == {"idle"}
    assert all(pair.right for pair in section.pairs)
    (pair,) = [pair for pair in section.pairs if pair.aspect == "idle"]
    assert pair.faster.measured.point.idle.connections == 0


def test_workers_are_ranked_whatever_they_share(section: ObservedSection) -> None:
    def at(entry: PointScore, **changes: Any) -> PointScore:
        point = point_at(entry.measured.point, mechanism="epoll_level", **changes)
        return replace(entry, measured=replace(entry.measured, point=point))

    fast, slow = section.scores[1:3]
    fast, slow = at(fast), at(slow, idle=0)
    for changes, aspect in (
        ({"workers": 2, "share": "nothing"}, "workers"),
        ({"workers": 2, "wake": "one"}, "workers"),
        ({"accept_limit": 1}, "accept_limit"),
    ):
        (pair,) = ranked_pairs([fast, at(slow, **changes)])
        assert (pair.aspect, pair.right) == (aspect, True)
    (pair,) = ranked_pairs([at(fast, workers=2), at(slow, workers=2, share="nothing")])
    assert pair.aspect == "share"
    assert ranked_pairs([at(fast, workers=3), at(slow, workers=2, share="nothing")]) == []


def test_the_report_has_a_page_scores_and_figures(section: ObservedSection, tmp_path: Path) -> None:
    report = write_observed([section], tmp_path)
    page = report.html_path.read_text()
    assert "epoll_level*" in page
    assert "<script" not in page
    content = json.loads(report.scores_path.read_text(), parse_constant=pytest.fail)
    (own,) = content["observed"]
    assert own["capacity"]["n_points"] == 2
    assert {p["role"] for p in own["points"]} == {"fit", "capacity", "offered"}
    assert own["ranking"]
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"closed_throughput_1.svg", "open_curves.png"} <= names
    for drawn in observed_figures(section).values():
        check_picture(drawn.figure)


def test_the_tables_fit_a_terminal(section: ObservedSection, tmp_path: Path) -> None:
    console = Console(width=110, file=io.StringIO(), highlight=False)
    print_observed(write_observed([section], tmp_path), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "capacity, worst" in text
    assert "What is wrong, and what to suspect" in text
    assert "it is not scored" in " ".join(text.split())
    lines = [line for line in text.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 110


def test_a_wrong_rank_is_shown(section: ObservedSection) -> None:
    (pair,) = section.pairs
    low = pair.slower.forecast
    swapped = replace(low, central=low.central._replace(throughput_per_s=1e9))
    wrong = pair._replace(slower=replace(pair.slower, forecast=swapped))
    tables = observed_tables(section.scores, section.capacity, [wrong])
    assert tables[-1].title == "Ranked wrongly"
    assert ("ranking of idle connections", "1", "0 right", "all", "missed") in tables[0].rows


def test_latencies_are_compared_only_where_both_are_of_the_same_time(truth: Profile) -> None:
    runs = [
        observed(KEPT, truth),
        observed(FITTED, truth, latency_ns={"since": "sent", "quantiles": {"0.5": 1e6}}),
    ]
    for entry in observed_points(runs, HABITS).points:
        assert entry.median.p50_ns != entry.median.p50_ns  # NaN


def test_what_cannot_be_set_beside_a_forecast_is_left_out_with_its_reason(
    truth: Profile, fitted_path: Path, tmp_path: Path
) -> None:
    good = observed(FITTED, truth)
    load = good.load.model_copy(update={"users": None})
    runs = [
        good.model_copy(update={"load": load}),
        good.model_copy(update={"accepted": False, "reason": "steal_share"}),
        good.model_copy(update={"calls": {"read": 5}}),
    ]
    grouped = observed_points(runs, HABITS)
    assert grouped.points == []
    assert "load.users: must be known" in grouped.notes[0]
    assert "it was disturbed: steal_share" in grouped.notes[1]
    assert "its calls were counted" in grouped.notes[2]
    with pytest.raises(
        DataError, match=r"no run of x can be compared with a forecast: toy-server of"
    ):
        observed_section("x", runs, fitted_path, HABITS)
