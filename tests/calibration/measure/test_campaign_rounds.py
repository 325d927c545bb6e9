"""Which tasks a campaign runs: rounds that depend on what was found, a budget, what is counted."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from dispatchsim.calibration.measure import campaign as campaigns
from dispatchsim.calibration.measure.campaign import (
    OTHER_REASONS,
    Campaign,
    CampaignProgress,
    Task,
)
from dispatchsim.calibration.measure.campaign_progress import summary_text
from dispatchsim.calibration.measure.machine_campaigns import kept_per_s
from dispatchsim.calibration.points.points import FIT_POINT, KEPT_FIT_POINT


class Row:
    """What a task left."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        self.accepted = not reason

    def model_dump_json(self) -> str:
        return "{}"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class Bench:
    """Notes what was measured; what is in *rejects* is rejected as often as it says there."""

    def __init__(self, tmp_path: Path, rejects: dict[str, int] | None = None) -> None:
        self.path = tmp_path / "rows.jsonl"
        self.rejects = dict(rejects or {})
        self.measured: list[tuple[int, str]] = []
        self.seen: list[CampaignProgress] = []

    def measure(self, task: Task) -> Sequence[Row]:
        self.measured.append((task.round, task.label))
        left = self.rejects.get(task.label, 0)
        if left:
            self.rejects[task.label] = left - 1
            return [Row("lag_p99_ns must be below 1, got 2")]
        return [Row()]

    def tasks(self, number: int, *names: str) -> list[Task]:
        return [Task(self.path, number, name) for name in names]


def taking_10_s(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Callable[[Task], Sequence[Row]]:
    """Return what measures as *bench* does and takes 10 s of the campaign's clock."""
    clock = Clock()

    def measure(task: Task) -> Sequence[Row]:
        clock.now_s += 10
        return bench.measure(task)

    monkeypatch.setattr(campaigns, "time", clock)
    return measure


def test_a_round_is_planned_when_the_one_before_is_over(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    def rounds() -> Iterator[list[Task]]:
        yield bench.tasks(0, "a", "b")
        assert bench.measured == [(0, "a"), (0, "b")]
        yield bench.tasks(1, "b")

    campaign = Campaign(bench.measure, bench.seen.append)
    with campaign.working():
        campaign.run(rounds(), "runs", n_rounds=3)
    assert bench.measured == [(0, "a"), (0, "b"), (1, "b")]
    # Three rounds of two at most; then one is over, and of three there may be two more.
    assert [(p.done, p.total) for p in bench.seen] == [(1, 6), (2, 6), (3, 4)]
    assert campaign.summary.measured == 3
    assert not campaign.summary.out_of_time


def test_known_rounds_count_what_is_left_to_do_and_what_was_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    campaign = Campaign(bench.measure, bench.seen.append)
    campaign.done |= {Task(bench.path, 0, "a"), Task(bench.path, 1, "b")}
    with campaign.working():
        campaign.run([bench.tasks(0, "a", "b"), bench.tasks(1, "a", "b")], "runs")
    assert bench.measured == [(0, "b"), (1, "a")]
    assert [(p.done, p.total) for p in bench.seen] == [(1, 2), (2, 2)]
    assert (campaign.summary.measured, campaign.summary.skipped) == (2, 2)


def test_a_budget_ends_a_campaign_in_the_midst_of_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    measure = taking_10_s(bench, monkeypatch)
    campaign = Campaign(measure, bench.seen.append, budget_s=25)
    with campaign.working():
        campaign.run([bench.tasks(n, "a", "b") for n in range(5)], "runs")
    assert bench.measured == [(0, "a"), (0, "b"), (1, "a")]
    assert campaign.summary.out_of_time
    assert summary_text(campaign.summary).startswith("out of time after 30 s: 3 measured")
    # Ten tasks of 10 s each would take longer than the budget.
    assert [p.seconds_left for p in bench.seen] == [15, 5, 0]


def test_a_budget_that_ends_during_the_last_task_has_ended_behind_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    measure = taking_10_s(bench, monkeypatch)
    campaign = Campaign(measure, budget_s=15)
    with campaign.working():
        campaign.run([bench.tasks(0, "a", "b")], "runs")
    assert bench.measured == [(0, "a"), (0, "b")]
    assert not campaign.summary.out_of_time


def test_no_task_begins_after_the_budget_ended_before_the_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, clock = Bench(tmp_path), Clock()
    monkeypatch.setattr(campaigns, "time", clock)
    campaign = Campaign(bench.measure, budget_s=15)
    with campaign.working():
        clock.now_s += 16  # gaps are recorded
        campaign.run([bench.tasks(0, "a", "b")], "runs")
    assert bench.measured == []
    assert campaign.summary.out_of_time


def test_a_sentence_of_a_server_is_counted_as_no_figure(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    campaign = Campaign(lambda _task: [Row("python3 answered no request: 7 connections failed")])
    with campaign.working():
        campaign.run([[Task(path, 0, "a")]], "runs")
    assert campaign.summary.reasons == {OTHER_REASONS: 3}


def test_rejected_runs_are_repeated_and_counted_by_their_reason(tmp_path: Path) -> None:
    bench = Bench(tmp_path, rejects={"a": 1, "b": 9})
    campaign = Campaign(bench.measure)
    with campaign.working():
        campaign.run([bench.tasks(0, "a", "b")], "runs")
    assert [name for _, name in bench.measured] == ["a", "b", "a", "b", "b"]
    assert (campaign.summary.measured, campaign.summary.given_up) == (1, 1)
    assert campaign.summary.reasons == {"lag_p99_ns": 4}
    assert "rejected because of: lag_p99_ns 4" in summary_text(campaign.summary)


def test_the_requests_of_kept_connections_follow_from_both_fit_points() -> None:
    # 40 us a request and 20 us a connection: 60 us for one, 45 us for each of four.
    rates = {FIT_POINT: 1 / 60e-6, KEPT_FIT_POINT: 1 / 45e-6}
    assert kept_per_s(rates) == pytest.approx(25_000)
    assert kept_per_s({FIT_POINT: 1e4}) is None
    # Four requests that take as long as one connection with one: a request takes nothing.
    assert kept_per_s({FIT_POINT: 1e4, KEPT_FIT_POINT: 4e4}) is None


def test_no_budget_has_no_end() -> None:
    progress: list[CampaignProgress] = []
    campaign = Campaign(lambda _task: [Row()], progress.append)
    campaign.say("runs", "after round 1", "a note")
    assert (progress[0].note, progress[0].seconds_left) == ("a note", 0)
    assert not math.isnan(progress[0].seconds_left)
