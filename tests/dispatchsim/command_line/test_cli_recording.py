"""The commands that show a run from within: files of their kind, and what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dispatchsim.command_line.app import app

_SHORT = ("--set", "run.warm_up=10 ms", "--set", "run.duration=60 ms")


def said(*arguments: str, code: int = 0) -> str:
    """Return what a command says, which ends with that *code*."""
    done = CliRunner().invoke(app, [*arguments])
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize(
    ("suffix", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_a_timeline_is_drawn_as_its_name_says(tmp_path: Path, suffix: str, begins: bytes) -> None:
    files = [tmp_path / f"{name}.{suffix}" for name in ("loop", "again/loop")]
    files[1].parent.mkdir()
    for path in files:
        told = said(
            "timeline", "epoll_10k_idle", *_SHORT, "--length", "200 us", "--plot", str(path)
        )
        assert re.search(rf"{re.escape(str(path))}: \d+ spans in 200 us, from 10 ms on\n", told)
    assert files[0].read_bytes().startswith(begins)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_run_leaves_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    asked = ("--trace", str(path), "--trace-from", "20 ms", "--trace-length", "1 ms")
    alone = ("--engine", "reference", "--cost-samples", "0", "--workers", "1")
    said("run", "poll_10k_idle", *_SHORT, *alone, *asked)
    trace = json.loads(path.read_text())
    assert trace["otherData"]["begin_ns"] == 20_000_000
    assert trace["otherData"]["end_ns"] == 21_000_000


def test_without_options_a_page_shows_a_whole_round_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said("step", "poll_10k_idle", *_SHORT)
    page = (tmp_path / "steps.html").read_text()
    assert "accept() takes" in page
    assert "write() sends the reply" in page
    assert "the rest of this check: poll() checks" in page


def test_a_page_is_made_for_another_mechanism(tmp_path: Path) -> None:
    path = tmp_path / "steps.html"
    asked = (*_SHORT, "--mechanism", "select", "--output", str(path))
    told = said("step", "poll_10k_idle", *asked)
    assert re.search(rf"{re.escape(str(path))}: \d+ steps\n", told)
    assert "select() checks 10,000 idle descriptors" in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("timeline", "--plot", "a.gif"), "--plot: must end in .png, .svg or .pdf, got a.gif"),
        (("timeline", "--plot", "a.svg", "--from", "9 s"), "--from: must be within the run, which"),
        (("timeline", "--plot", "a.svg", "--length", "2"), '--length: must be a duration such as'),
        (("timeline", "--plot", "a.svg", "--length", "0ms"), "must be above 0, got 0ms"),
        (("step", "--output", "a.txt"), "--output: must end in .html, got a.txt"),
        (("step", "--output", "no/a.html"), "--output: must be in an existing folder, got no"),
        (("run", "--trace", "a.txt"), "--trace: must end in .json, got a.txt"),
        (("run", "--trace-from", "1 ms"), "--trace-from, --trace-length: must be absent without"),
        (
            ("run", "--trace", "a.json", "--trace-length", "9 s"),
            "--trace-length: must be at most 2 s, the rest of the run, which lasts 2500 ms, got",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_refused_before_anything_is_run(
    arguments: tuple[str, ...], sentence: str
) -> None:
    command, *options = arguments
    assert sentence in said(command, "epoll_10k_idle", *options, code=2)
