"""A campaign on the emulated target, with guests that only look like some."""

from __future__ import annotations

import _thread
import json
import re
import threading
from pathlib import Path

import pytest
from tests.calibration.emulated.fake_guests import (
    COUNTERS,
    LATENCY_NS,
    FakeGuests,
    changed,
    fake_target,
    spoil_records,
    wait_for,
)

from dispatchsim.calibration.emulated import run_lengths
from dispatchsim.calibration.emulated.guest_run import RECORD_FIELDS, STATUS_FIELDS, USAGE_FIELDS
from dispatchsim.calibration.emulated.kernel_source import TargetMissingError, find_source
from dispatchsim.calibration.emulated.target import EmulatedTarget, emulated_target
from dispatchsim.calibration.measure.campaign import (
    CampaignError,
    CampaignProgress,
    CampaignSummary,
)
from dispatchsim.calibration.measure.machine_campaigns import Kind, run_campaign
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.points.points import FIT_POINT, Grids
from dispatchsim.calibration.records.measured_runs import DataError, RunRecord, read_rows
from dispatchsim.calibration.testbed.c_build import SOURCE_FOLDER

OPEN = point_at(mechanism="select", loop="open", rate_per_s=8_000)
CLOSED = point_at(mechanism="poll", users=4)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make the grid tiny, and let no other campaign's lock be in the way."""
    path = tmp_path / "tiny.toml"
    path.write_text(
        """
        [[rounds.closed]]
        server.mechanism = "poll"
        load = { loop = "closed", users = 4 }
        [[rounds.open]]
        server.mechanism = "select"
        load = { loop = "open", rate = "8000/s" }
        """
    )
    monkeypatch.setattr("dispatchsim.calibration.emulated.target.EMULATED", Grids.read(path))
    monkeypatch.setattr(EmulatedTarget, "benches", lambda *_, **__: [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def campaign(
    output: Path, guests: FakeGuests, kind: Kind = "all", *, repeats: int = 3, n_cpus: int = 2
) -> CampaignSummary:
    return run_campaign(fake_target(guests, n_cpus), kind=kind, output=output, repeats=repeats)


def held_out(folder: Path) -> list[RunRecord]:
    return read_rows(folder / "heldout.jsonl", RunRecord).rows


def test_every_point_is_run_twice_in_each_round(tmp_path: Path) -> None:
    guests = FakeGuests()
    summary = campaign(tmp_path, guests)
    assert (summary.measured, summary.rejected, summary.failed) == (7, 0, 0)
    assert guests.n_runs == 2 * 7
    (fit,) = read_rows(tmp_path / "fit.jsonl", RunRecord).rows
    assert (fit.point, fit.repeat) == (FIT_POINT, 0)
    found = {(run.point, run.repeat, run.seed) for run in held_out(tmp_path)}
    assert found == {
        (point, repeat, point.seed(repeat)) for point in (OPEN, CLOSED) for repeat in range(3)
    }
    assert json.loads((tmp_path / "machine.json").read_text())["network_delay_ns"] == 50_000


def test_a_record_says_what_happened_in_the_window(tmp_path: Path) -> None:
    campaign(tmp_path, FakeGuests(), "heldout", repeats=1)
    (run,) = (run for run in held_out(tmp_path) if run.point == OPEN)
    lengths = run_lengths.lengths_of(OPEN)
    assert (run.steering, run.accepted, run.code) == ("emulated", True, "guest-0")
    assert run.warm_up_ns == lengths.warm_up_ns + 5_000
    assert run.window_ns == lengths.window_ns + 2_000
    result = run.result
    assert result.calls == {
        "waits": 20, "events": 50, "accepts": 25, "replies": 25, "connections_open": 0,
    }  # fmt: skip
    assert result.cpu.busy_ns == run.window_ns - lengths.window_ns // 4
    assert result.cpu.process_ns == lengths.window_ns // 2
    assert (result.interrupts, result.switches, result.switches_involuntary) == (90, 17, 0)
    assert result.latency_ns is not None
    assert (result.latency_ns.mean, result.latency_ns.p99) == (LATENCY_NS, LATENCY_NS)
    assert result.offered == pytest.approx(run_lengths.WINDOW_REQUESTS, rel=0.1)
    # Arrivals go on to the end: what comes last is offered and not answered.
    assert 0 < result.unfinished < 10
    assert abs(result.offered - result.replied) < 10


def test_a_finished_task_is_not_run_again(tmp_path: Path) -> None:
    campaign(tmp_path, FakeGuests(), repeats=2)
    guests = FakeGuests()
    summary = campaign(tmp_path, guests, repeats=3)
    assert (summary.measured, summary.skipped, guests.n_runs) == (2, 5, 4)


def test_the_parts_of_a_campaign_are_told_apart(tmp_path: Path) -> None:
    seen = []
    run_campaign(
        fake_target(FakeGuests()),
        kind="all",
        output=tmp_path,
        repeats=1,
        progress=lambda progress: seen.append((progress.part, progress.done, progress.total)),
    )
    assert seen == [
        ("fit runs for the capacity", 1, 1),
        ("held-out runs", 1, 2),
        ("held-out runs", 2, 2),
    ]


def test_fit_points_that_an_interrupt_left_out_are_measured(tmp_path: Path) -> None:
    campaign(tmp_path, FakeGuests(), "fit", repeats=1)
    target = fake_target(FakeGuests())
    target.fit_points = (FIT_POINT, CLOSED)
    summary = run_campaign(target, kind="all", output=tmp_path, repeats=1)
    assert (summary.measured, summary.skipped) == (3, 1)
    assert [run.point for run in read_rows(tmp_path / "fit.jsonl", RunRecord).rows] == [
        FIT_POINT,
        CLOSED,
    ]


@pytest.mark.parametrize(
    ("frame", "fields", "name", "reason"),
    [
        ("records", RECORD_FIELDS, "done_ns", "records[0].done_ns: 80000, then 80001"),
        ("counters_after", COUNTERS, "events", "counters_after.events: 50, then 51"),
        ("wire_after", STATUS_FIELDS, "n_polls", "wire_after.n_polls: 0, then 1"),
        ("usage_after", USAGE_FIELDS, "n_switches_voluntary", "usage_after.n_sw.*: 17, then 18"),
    ],
)
def test_a_repeat_that_differs_in_anything_is_rejected(
    tmp_path: Path, frame: str, fields: tuple[str, ...], name: str, reason: str
) -> None:
    def spoil(number: int, frames: dict[str, bytes]) -> None:
        if number == 1:  # of the first pair, that of the fit point
            frames[frame] = changed(frames[frame], fields, name, 1)

    summary = campaign(tmp_path, FakeGuests(spoil), "fit", repeats=1)
    assert (summary.measured, summary.rejected, summary.given_up) == (1, 1, 0)
    rejected, accepted = read_rows(tmp_path / "fit.jsonl", RunRecord).rows
    assert accepted.accepted
    assert not rejected.accepted
    pattern = reason.replace("[", r"\[").replace("]", r"\]")
    assert re.fullmatch(f"repeat differs in {pattern}", rejected.reason)


def test_a_repeat_with_more_connections_is_rejected(tmp_path: Path) -> None:
    def spoil(number: int, frames: dict[str, bytes]) -> None:
        if number == 1:
            frames["records"] += bytes(40)

    campaign(tmp_path, FakeGuests(spoil), "fit", repeats=1)
    rejected = read_rows(tmp_path / "fit.jsonl", RunRecord).rows[0]
    assert re.fullmatch(r"repeat differs in records: \d+ bytes, then \d+", rejected.reason)


def test_without_an_accepted_fit_run_there_are_no_rates(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="has fewer than 1 accepted runs"):
        campaign(tmp_path, FakeGuests(spoil_records), "heldout")


def test_a_wire_that_lost_packets_fails_the_run(tmp_path: Path) -> None:
    def spoil(_number: int, frames: dict[str, bytes]) -> None:
        frames["wire_end"] = changed(frames["wire_end"], STATUS_FIELDS, "n_lost", 2)

    notes = []
    summary = run_campaign(
        fake_target(FakeGuests(spoil)),
        kind="fit",
        output=tmp_path,
        progress=lambda progress: notes.append(progress.note),
    )
    assert (summary.measured, summary.failed, summary.given_up) == (0, 3, 1)
    assert notes == ["failed: the wire had no memory for 2 packets"] * 3


def test_tasks_run_at_once_on_cpus_of_their_own(tmp_path: Path) -> None:
    guests = FakeGuests(seconds=0.05)
    campaign(tmp_path, guests, "heldout", repeats=6)
    assert max(len(cpus) for cpus in guests.cpus_at_once) == 2
    assert all(len(set(cpus)) == len(cpus) for cpus in guests.cpus_at_once)
    assert {cpu for cpus in guests.cpus_at_once for cpu in cpus} == {0, 1}


def test_one_cpu_gives_the_same_files(tmp_path: Path) -> None:
    for n_cpus in (1, 2):
        campaign(tmp_path / str(n_cpus), FakeGuests(), repeats=2, n_cpus=n_cpus)
    one, two = (
        sorted((run.point.label, run.repeat, run.result) for run in held_out(tmp_path / str(n)))
        for n in (1, 2)
    )
    assert one == two


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="Ctrl-C is the main thread's"
)
def test_ctrl_c_ends_the_guests_and_keeps_what_was_finished(tmp_path: Path) -> None:
    guests = FakeGuests()

    def interrupt_later(_progress: CampaignProgress) -> None:
        guests.seconds = 60
        threading.Thread(target=interrupt_two).start()

    def interrupt_two() -> None:
        wait_for(lambda: len(guests.running) == 2)
        _thread.interrupt_main()

    summary = run_campaign(
        fake_target(guests), kind="heldout", output=tmp_path, repeats=2, progress=interrupt_later
    )
    assert summary.interrupted
    assert summary.seconds < 30
    assert not guests.running
    assert len(read_rows(tmp_path / "fit.jsonl", RunRecord).rows) == 1
    assert not held_out(tmp_path)
    assert campaign(tmp_path, FakeGuests(), repeats=2).measured == 4


def test_a_folder_of_another_build_is_refused(tmp_path: Path) -> None:
    campaign(tmp_path, FakeGuests(), "fit", repeats=1)
    facts = json.loads((tmp_path / "machine.json").read_text())
    (tmp_path / "machine.json").write_text(json.dumps({**facts, "qemu": "QEMU 1.0"}))
    with pytest.raises(DataError, match=r'field qemu is "QEMU 1\.0", this machine is "a qemu"'):
        campaign(tmp_path, FakeGuests(), "fit")


def test_what_is_missing_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetMissingError, match="apt-get install qemu-system-x86"):
        emulated_target()
    with pytest.raises(TargetMissingError, match=r"apt-get install linux-source-6\.1"):
        find_source(tmp_path / "linux-source-6.1.tar.xz")


# The layout that C and Python share


def test_the_wires_status_is_read_as_it_is_declared() -> None:
    header = (SOURCE_FOLDER / "emulated/wire/wire.h").read_text()
    for struct, fields in (("wire_status", STATUS_FIELDS), ("wire_record", RECORD_FIELDS)):
        body = re.search(rf"struct {struct} \{{(.*?)\n\}};", header, re.DOTALL)
        assert body is not None
        assert tuple(re.findall(r"^\tu?int64_t (\w+);", body[1], re.MULTILINE)) == fields
