"""One report holds both sections: the pages, the pictures, the text of a terminal."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.validation.emulated_runs import emulated_run
from tests.validation.synthetic_runs import SHORT, synthetic_run, toy_profile

from dispatchsim.calibration.points.point import point_at, stored
from dispatchsim.calibration.points.points import FIT_POINT
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import append
from dispatchsim.validation.forecast.provenance import MachineRuns
from dispatchsim.validation.noise_free.run_forecast import noise_free_job, simulated
from dispatchsim.validation.report.effects import Change, Effect
from dispatchsim.validation.report.report import Report, is_emulated, validate

HOSTILE = "<script>$\\frac{&"
POINTS = [
    point_at(mechanism="poll", idle=4000, users=8),
    point_at(mechanism="epoll_level", users=256, accept_limit=10),
    *(point_at(mechanism="epoll_level", loop="open", rate_per_s=r) for r in (8_000, 40_000)),
]
REJECTED = point_at(mechanism="poll", idle=200, users=16)
EFFECT = Effect(
    id="poll-budget",
    what=f"A poll takes {HOSTILE} packets at once.",
    where="sim/cpu/interrupts.py",
    found_by=POINTS[0].label,
    noise_free=Change(figure="waits per request", statistic="worst", before=0.06, after=0.01),
)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> list[MachineRuns]:
    """Return a real machine and the emulated one, both with the same profile."""
    root = tmp_path_factory.mktemp("machines")
    hardware, emulated = root / "hardware", root / HOSTILE.replace("/", "")
    for folder in (hardware, emulated):
        folder.mkdir()
    toy_profile(name=HOSTILE, scale=0.98).write(root / "toy.toml")
    append(hardware / "heldout.jsonl", synthetic_run(POINTS[0], profile))
    append(emulated / "fit.jsonl", emulated_run(FIT_POINT, profile))
    runs = [emulated_run(point, profile) for point in POINTS]
    append(
        emulated / "heldout.jsonl",
        *runs,
        emulated_run(REJECTED, profile, reason="repeat differs in interrupts"),
    )
    (emulated / "instructions").mkdir()
    forecast = simulated(noise_free_job(POINTS[0], POINTS[0].seed(0), SHORT, profile))
    content = {
        "format": "dispatchsim-instructions/1",
        "point": stored(POINTS[0]),
        "replies": 10,
        "window_ns": SHORT.window_ns,
        "busy_ns": 10,
        "activities": forecast.ledger_ns,
        "functions": {HOSTILE: 3.0},
    }
    (emulated / "instructions" / "a.json").write_text(json.dumps(content))
    return [MachineRuns(root / "toy.toml", folder) for folder in (hardware, emulated)]


@pytest.fixture(scope="module")
def report(machines: list[MachineRuns], tmp_path_factory: pytest.TempPathFactory) -> Report:
    return validate(machines, tmp_path_factory.mktemp("report"), draws=0)


def test_one_report_holds_both_sections(report: Report) -> None:
    (hardware,), (noise_free,) = report.hardware, report.noise_free
    assert [s.measured.point for s in hardware.scores] == POINTS[:1]
    assert [s.point for s in noise_free.scores] == [FIT_POINT, *POINTS]
    assert [e.point for e in noise_free.missing] == [REJECTED]
    assert noise_free.provenance.rejected_by_reason == {"repeat": 1}
    content = json.loads(report.scores_path.read_text(), parse_constant=pytest.fail)
    assert [len(content[key]) for key in ("hardware", "noise_free")] == [1, 1]
    section = content["noise_free"][0]
    assert [run["seen_by_fit"] for run in section["runs"]] == [True] + 4 * [False]
    assert len(section["promises"]) == 6
    assert len(section["ledgers"]) == 1


def test_figures_of_both_sections_are_files(report: Report) -> None:
    names = {path.name for path in report.figure_paths}
    for name in ("errors", "curves", "ledger"):
        assert {f"noise_free_{name}.svg", f"noise_free_{name}.png"} <= names
    assert "closed_throughput.svg" in names


def test_the_page_has_both_sections_and_no_script(report: Report) -> None:
    page = replace(report, effects=(EFFECT,)).page()
    assert "<script" not in page
    assert "On hardware: hardware" in page
    assert "Without noise: &lt;script&gt;" in page
    assert "poll-budget" in page
    assert ">nan<" not in page
    for title in ("Promises", "By server, at equal CPU", "The worst 4 points", "CPU ledger: poll"):
        assert title in page


def test_both_sections_fit_a_terminal(report: Report) -> None:
    console = Console(width=100, file=io.StringIO(), color_system=None)
    replace(report, effects=(EFFECT,)).print(console, full=True)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [line for line in text.splitlines() if str(report.html_path.parent) not in line]
    assert max(map(len, lines)) <= 100
    for words in ("Targets", "Promises", "CPU per request", "poll-budget"):
        assert words in text
    # The label of a point wraps in the first column, of eight characters.
    assert "open 40000/s" in " ".join(line[:8].strip() for line in lines if line[:8].strip())


def test_several_emulated_machines_keep_their_figures_apart(
    machines: list[MachineRuns], tmp_path: Path
) -> None:
    other = machines[1].folder.with_name("other")
    other.mkdir()
    (other / "heldout.jsonl").write_bytes((machines[1].folder / "heldout.jsonl").read_bytes())
    twins = [machines[1], machines[1]._replace(folder=other)]
    report = validate(twins, tmp_path, draws=0)
    names = {path.name for path in report.figure_paths}
    assert "other_noise_free_errors.png" in names
    assert len(names) == len(report.figure_paths)
    assert report.noise_free[1].provenance.notices[0] == "fit.jsonl: no such file"


def test_runs_of_both_kinds_in_one_folder_are_refused(profile: Profile, tmp_path: Path) -> None:
    append(tmp_path / "fit.jsonl", synthetic_run(FIT_POINT, profile))
    append(tmp_path / "heldout.jsonl", emulated_run(POINTS[2], profile))
    with pytest.raises(ValueError, match="must hold runs of one kind"):
        is_emulated(MachineRuns(tmp_path / "toy.toml", tmp_path))
