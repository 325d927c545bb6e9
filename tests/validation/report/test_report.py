"""The report: whole files, text that fits, nothing that a browser would run."""

from __future__ import annotations

import io
import json
import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.pictures import check_picture
from tests.validation.scoring.test_knee import curve
from tests.validation.synthetic_runs import synthetic_run, toy_profile

from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.points.points import FIT_POINT
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import append
from dispatchsim.sim.files.whole_files import write_whole
from dispatchsim.validation.drawing.accuracy_figures import accuracy_figures
from dispatchsim.validation.drawing.figures import figures, to_svg
from dispatchsim.validation.forecast.baselines import BASELINES
from dispatchsim.validation.forecast.grid_forecast import GridForecast, write_forecast
from dispatchsim.validation.forecast.provenance import MachineRuns, provenance_of
from dispatchsim.validation.points.measured_points import GeneratorFigures
from dispatchsim.validation.report.hardware_section import HardwareSection, asked_tables
from dispatchsim.validation.report.page import number
from dispatchsim.validation.report.point_tables import BY_SHARE, score_tables
from dispatchsim.validation.report.report import Report, validate
from dispatchsim.validation.scoring.targets import OURS

HOSTILE = '<script>alert("x")</script>$\\frac{&'
POINTS = [
    FIT_POINT,
    point_at(mechanism="poll", idle=200, users=8),
    point_at(mechanism="select", users=8, accept_limit=1),
    *(point_at(mechanism="epoll_level", loop="open", rate_per_s=r) for r in (8_000, 30_000)),
]
REJECTED = point_at(mechanism="poll", idle=200, users=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> Path:
    """Return a folder with a profile, runs and facts of a machine."""
    folder = tmp_path_factory.mktemp("measured")
    toy_profile(name=HOSTILE).write(folder / "toy.toml")
    runs = [synthetic_run(point, profile) for point in POINTS]
    runs.append(synthetic_run(REJECTED, profile, reason="steal_share must be below 0.02"))
    append(folder / "heldout.jsonl", *runs)
    (folder / "machine.json").write_text(json.dumps({"cpu_model": HOSTILE, "caches": {"L2": "1M"}}))
    return folder


def validated(folder: Path, output: Path, *, draws: int = 1, workers: int = 1) -> Report:
    machine = MachineRuns(folder / "toy.toml", folder)
    return validate([machine], output, draws=draws, workers=workers)


@pytest.fixture(scope="module")
def report(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    return validated(folder, tmp_path_factory.mktemp("report"))


def test_a_report_writes_page_scores_and_figures(report: Report) -> None:
    names = sorted(path.name for path in report.html_path.parent.rglob("*") if path.is_file())
    pictures = [
        "closed_throughput", "error_by_load", "error_histogram", "open_curves",
        "predicted_measured",
    ]  # fmt: skip
    expected = ["report.html", "scores.json", "simulated.jsonl"]
    expected += [f"{name}.{suffix}" for name in pictures for suffix in ("png", "svg")]
    assert names == sorted(expected)
    assert sorted(path.name for path in report.figure_paths) == sorted(expected[3:])


def test_scores_are_json_without_nan(report: Report) -> None:
    content = json.loads(report.scores_path.read_text(), parse_constant=pytest.fail)
    assert content["format"] == "dispatchsim-scores/2"
    (section,) = content["hardware"]
    assert content["noise_free"] == []
    assert len(section["points"]) == len(POINTS)
    assert section["not_measured"][0]["point"]["users"] == 16
    assert section["provenance"]["rejected_by_reason"] == {"steal_share": 1}
    assert section["provenance"]["machine"]["cpu_model"] == HOSTILE


class Tags(HTMLParser):
    """The tags of a page, in their order, and what they refer to; identifiers of elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.addresses: list[str] = []
        self.anchors: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag in ("h2", "h3", "div"):
            self.anchors += [value or "" for name, value in attrs if name == "id"]


def test_the_page_is_self_contained_and_escapes_hostile_text(report: Report) -> None:
    page = report.html_path.read_text()
    tags = Tags(page)
    assert {"svg", "table", "figure"} <= set(tags.names)
    assert "script" not in tags.names
    assert [address for address in tags.addresses if not address.startswith("#")] == []
    assert page.count("&lt;script&gt;") >= 2  # the profile's name and the machine's fact


def test_a_page_begins_with_its_contents_and_a_section_with_pictures(report: Report) -> None:
    tags = Tags(report.html_path.read_text())
    assert tags.addresses == [f"#{anchor}" for anchor in tags.anchors]
    assert {"part-1", "part-1-1", "part-1-points", "part-1-provenance"} <= set(tags.anchors)
    assert len(set(tags.anchors)) == len(tags.anchors)
    order = [name for name in tags.names if name in ("nav", "h2", "svg", "table")]
    assert order[:4] == ["nav", "h2", "svg", "svg"]
    assert order[4] == "table"


def test_hostile_names_are_text_in_the_figures(report: Report) -> None:
    good = report.hardware[0].scores[1].measured.point
    bad = good.model_copy(update={"server": good.server.model_copy(update={"mechanism": HOSTILE})})
    scores = [
        replace(s, measured=replace(s.measured, point=bad))
        if s is report.hardware[0].scores[1]
        else s
        for s in report.hardware[0].scores
    ]
    section = replace(report.hardware[0], scores=scores)
    page = replace(report, hardware=[section]).page()
    tags = Tags(page)
    assert "script" not in tags.names
    for name, figure in (figures(scores) | accuracy_figures(scores)).items():
        ET.fromstring(to_svg(check_picture(figure), name))


def printed(report: Report, *, full: bool) -> str:
    console = Console(width=100, file=io.StringIO(), color_system=None)
    report.print(console, full=full)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_a_terminal_shows_what_is_wrong_and_the_path_of_the_rest(report: Report) -> None:
    text = printed(report, full=False)
    lines = text.splitlines()
    assert len(lines) <= 60
    assert max(len(line) for line in lines if str(report.html_path.parent) not in line) <= 100
    places = [
        text.index(f"\n{title}")
        for title in (
            "Median errors: ",
            "What is wrong, and what to suspect",
            "Median errors by metric and load",
            "Worst points",
            "warning: ",
            "Every table and point (--full prints them here):",
        )
    ]
    assert places == sorted(places)
    assert lines[-2:] == [str(report.html_path), str(report.scores_path)]
    assert "Closed loop " not in text
    assert "Targets" not in text


def test_a_page_has_what_is_wrong_before_all_tables(report: Report) -> None:
    page = report.html_path.read_text()
    wrong = page.index('<h3 id="part-1-1">What is wrong, and what to suspect</h3>')
    assert wrong < page.index(">Errors by metric and load</h3>")


def test_the_terminal_report_fits_100_columns(report: Report) -> None:
    text = printed(report, full=True)
    lines = [line for line in text.splitlines() if str(report.html_path.parent) not in line]
    assert max(map(len, lines)) <= 100
    for title in ("Targets", "Closed loop", "Open loop, 0 idle: epoll_level", "Accept limit"):
        assert f"{title} " in text
    assert REJECTED.label in text
    for name in (OURS, *BASELINES):
        assert all(word in text for word in name.split())
    cells = [
        cell
        for table in score_tables(report.hardware[0].scores)
        for row in table.rows
        for cell in row
    ]
    assert all(cell in text for cell in cells)


def test_processes_give_the_same_scores(folder: Path, report: Report, tmp_path: Path) -> None:
    again = validated(folder, tmp_path, workers=2)
    assert repr(again.hardware[0].scores) == repr(report.hardware[0].scores)


def test_a_point_that_the_profile_cannot_price_is_said(
    folder: Path, profile: Profile, tmp_path: Path
) -> None:
    run = synthetic_run(POINTS[1], profile)
    strange = run.model_copy(update={"point": point_at(run.point, mechanism="dev_poll")})
    append(tmp_path / "heldout.jsonl", run, strange)
    (found,) = validate(
        [MachineRuns(folder / "toy.toml", tmp_path)], tmp_path / "out", draws=0
    ).hardware
    assert [s.measured.point.server.mechanism for s in found.scores] == ["poll"]
    no_fit, not_forecast, effects = found.provenance.notices
    assert no_fit == "fit.jsonl: no such file"
    assert not_forecast.startswith("not forecast: ")
    assert "dev_poll" in not_forecast
    assert "has no costs for" in effects


@pytest.mark.parametrize(
    ("fitted_on", "measured_on", "n_notices"),
    [("epyc", "xeon", 1), ("epyc", "epyc", 0), ("epyc", None, 0), (None, "xeon", 0)],
)
def test_a_profile_of_another_machine_is_said(
    profile: Profile,
    tmp_path: Path,
    fitted_on: str | None,
    measured_on: str | None,
    n_notices: int,
) -> None:
    facts = {} if measured_on is None else {"id": measured_on}
    (tmp_path / "machine.json").write_text(json.dumps(facts))
    fitted = {} if fitted_on is None else {"id": fitted_on}
    found = provenance_of(
        MachineRuns(tmp_path / "machine.json", tmp_path),
        [synthetic_run(POINTS[1], profile)],
        profile.model_copy(update={"name": "mine", "machine": fitted}),
        method={},
        notices=["another"],
    ).notices
    first = "profile mine was fitted on epyc, the runs are of xeon"
    assert found == (*[first][:n_notices], "another")


def test_no_runs_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"needs measured runs, found none in fit\.jsonl and"):
        validate([MachineRuns(folder / "toy.toml", tmp_path)], tmp_path)


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, "old")

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_every_missing_value_is_a_dash(report: Report) -> None:
    assert number(float("nan")) == "\N{EN DASH}"
    assert "nan" not in report.scores().lower().replace("provenance", "")
    assert ">nan<" not in report.html_path.read_text()


def test_forecasts_that_were_made_before_are_scored_beside_those_of_today(
    folder: Path, report: Report, profile: Profile, tmp_path: Path
) -> None:
    append(tmp_path / "heldout.jsonl", *(synthetic_run(point, profile) for point in POINTS[3:]))
    today = {s.forecast.point: s.forecast for s in report.hardware[0].scores}
    made = {"format": "dispatchsim-grid-forecast/1", "date": "2026-01-01T00:00:00", "draws": 1}
    write_forecast(GridForecast(made, today), tmp_path / "forecast.json")
    again = validate([MachineRuns(folder / "toy.toml", tmp_path)], tmp_path / "out", draws=1)
    (section,) = json.loads(again.scores_path.read_text())["hardware"]
    assert section["stated"]["date"] == "2026-01-01T00:00:00"
    assert section["stated"]["regimes"] == section["regimes"] != []
    title = "Errors by metric and load, forecast on 2026-01-01, before the measurement"
    assert title in again.html_path.read_text()
    assert json.loads(report.scores_path.read_text())["hardware"][0]["stated"] is None


@pytest.mark.parametrize(("lag_p99_ns", "end"), [(9.0, ""), (math.nan, BY_SHARE)])
def test_titles_of_fewer_points_say_whether_lateness_was_recorded(
    lag_p99_ns: float, end: str
) -> None:
    late = GeneratorFigures(1.0, 1.0, lag_p99_ns, 9.0, n_limited=0)
    limited = late._replace(offered_share=0.9, lag_p99_ns=math.nan, n_limited=1)
    scores = [
        replace(score, measured=replace(score.measured, generator=generator))
        for score, generator in zip(
            curve((1, 10, 100), (1, 10, 100)), (late, limited, None), strict=True
        )
    ]
    nothing: Any = None
    section = HardwareSection("a machine", nothing, scores, targets=[], missing=[])
    titles = [
        table.title
        for table in asked_tables(
            ([], []),
            ([], []),
            differ=len(section.kept_up) < len(scores),
            knows_lateness=section.knows_lateness,
        )
    ]
    fewer = f", without points whose load generator was the limit{end}"
    assert titles == [
        "Load at which p99 exceeds a bound",
        "Errors by metric and load",
        f"Load at which p99 exceeds a bound{fewer}",
        f"Errors by metric and load{fewer}",
    ]
    assert "lateness at p99 was not recorded" in BY_SHARE
