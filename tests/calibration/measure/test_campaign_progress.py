"""What is said of a campaign while it goes on, on a terminal and in a log."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dispatchsim.calibration.measure import campaign_progress
from dispatchsim.calibration.measure.campaign import CampaignProgress
from dispatchsim.calibration.measure.campaign_progress import building_bar, campaign_bar


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(campaign_progress, "time", clock)
    return clock


def a_console(*, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=80)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def stand(part: str, done: int, note: str = "") -> CampaignProgress:
    return CampaignProgress(
        part=part,
        label="round 0 poll idle 6000 closed 64",
        done=done,
        total=68,
        rejected=1,
        seconds_left=250,
        note=note,
    )


def test_a_log_has_a_line_for_each_part_and_one_a_minute(clock: Clock) -> None:
    console = a_console()
    with campaign_bar(console) as show:
        show(stand("fit runs", 1))
        show(stand("fit runs", 2))
        show(stand("held-out runs", 1))
        clock.now_s += 59
        show(stand("held-out runs", 2))
        clock.now_s += 2
        show(stand("held-out runs", 5))
    begun = "of 68, ? left, 1 rejected; round 0 poll idle 6000 closed 64"
    assert said(console).splitlines() == [
        f"fit runs: 1 {begun}",
        f"held-out runs: 1 {begun}",
        f"held-out runs: 5 {begun.replace('?', '4 min 10 s')}",
    ]


@pytest.mark.usefixtures("clock")
def test_a_log_says_at_once_why_a_run_does_not_count() -> None:
    console = a_console()
    with campaign_bar(console) as show:
        show(stand("fit runs", 1))
        show(stand("fit runs", 1, "failed: no reply"))
    last = said(console).splitlines()[-1]
    assert last == "fit runs: round 0 poll idle 6000 closed 64: failed: no reply"


def test_a_log_follows_the_build_of_a_kernel(clock: Clock) -> None:
    console = a_console()
    with building_bar(console) as show:
        show("unpacking Linux", 0, 79_000)
        show("unpacking Linux", 500, 79_000)
        for number in range(100):
            show("building Linux", number, 200)
            clock.now_s += 1
    assert said(console).splitlines() == [
        "unpacking Linux",
        "building Linux",
        "building Linux: 30%",
    ]


@pytest.mark.usefixtures("clock")
def test_a_terminal_has_the_bar_alone() -> None:
    console = a_console(terminal=True)
    with building_bar(console) as show:
        show("building Linux", 50, 200)
    with campaign_bar(console) as show_run:
        show_run(stand("held-out runs", 7))
    text = said(console)
    assert "7/68" in text
    assert "held-out runs" in text
    assert "7 of 68" not in text
    assert "building Linux: " not in text
