"""How runs are compared, and what the command says; without an emulator."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.calibration.emulated.fake_guests import COUNTERS, changed, frames_of

from dispatchsim.calibration.emulated import determinism
from dispatchsim.calibration.emulated.determinism import (
    LENGTHS,
    POINT,
    SEED,
    Seen,
    Verdict,
    busy_host,
    digest_of,
    late_main_loop,
    main,
    seen_of,
    verdict_of,
)
from dispatchsim.calibration.emulated.errors import GuestError, TargetMissingError
from dispatchsim.calibration.emulated.guest_frames import (
    RECORD_FIELDS,
    STATUS_FIELDS,
    macro_frames,
)
from dispatchsim.calibration.emulated.guest_run import ICOUNT, GuestOutput
from dispatchsim.calibration.emulated.macro_run import job_of

SEEN = Seen("0123456789ab", cpu_ns=1_000_000, counts={"replies": 25, "waits": 20}, wall_s=2.5)


def frames() -> dict[str, bytes]:
    return frames_of(job_of(POINT, SEED, LENGTHS, server=Path("server"), modules=()))


# What a run came to


def test_what_is_seen_is_what_happened_in_the_window() -> None:
    content = frames()
    seen = seen_of(content, macro_frames(content, COUNTERS), 2.5)
    window_ns = LENGTHS.window_ns
    assert seen.cpu_ns == window_ns + 2_000 - window_ns // 4
    assert seen.cpu_ns_per_request == seen.cpu_ns / 25
    assert (seen.wall_s, seen.digest) == (2.5, digest_of(content))
    expected = {"waits": 20, "events": 50, "accepts": 25, "replies": 25, "n_interrupts": 90}
    assert {name: seen.counts[name] for name in expected} == expected
    assert not {"now_ns", "idle_ns"} & set(seen.counts), "times are not counts"


def test_the_output_is_told_apart_by_any_bit_of_any_frame() -> None:
    content = frames()
    assert digest_of(content) == digest_of(dict(reversed(content.items())))
    later = changed(content["records"], RECORD_FIELDS, "done_ns", 1)
    moved = {**content, "end": b"", "error": b"0"}
    others = [{**content, "records": later}, {**content, "more": b""}, moved]
    assert len({digest_of(each) for each in [content, *others]}) == 4


# How much runs differ


def test_equal_runs_are_identical_whatever_the_host_took() -> None:
    verdict = verdict_of([SEEN, replace(SEEN, wall_s=9.0), SEEN])
    assert verdict == Verdict(n_runs=3, n_distinct=1, n_largest=3, spread=0.0, same_counts=True)
    assert verdict.identical
    assert verdict.within_limits
    assert str(verdict) == (
        "3 runs, 1 distinct output, 3 like the most frequent; "
        "CPU a request agrees within 0.0e+00, counts are equal"
    )


def test_runs_whose_times_alone_differ_are_within_limits_and_not_identical() -> None:
    verdict = verdict_of([SEEN, replace(SEEN, digest="b"), SEEN])
    assert (verdict.n_distinct, verdict.n_largest) == (2, 2)
    assert not verdict.identical
    assert verdict.within_limits


@pytest.mark.parametrize(("more_ns", "within"), [(99, True), (101, False)])
def test_the_spread_of_cpu_time_has_a_limit(more_ns: int, *, within: bool) -> None:
    other = replace(SEEN, digest="b", cpu_ns=SEEN.cpu_ns + more_ns)
    verdict = verdict_of([other, SEEN])
    assert verdict.spread == pytest.approx(more_ns / SEEN.cpu_ns)
    assert verdict.within_limits is within


def test_counts_must_be_equal() -> None:
    counts = {**SEEN.counts, "waits": 21}
    verdict = verdict_of([SEEN, replace(SEEN, digest="b", counts=counts)])
    assert verdict.spread == 0
    assert not verdict.within_limits
    assert str(verdict).startswith("2 runs, 2 distinct outputs, 1 like the most frequent;")
    assert str(verdict).endswith("counts are different")


# The command


class FakeExperiment:
    """Answers at once; *spoil* makes the frames of a run, by its number."""

    counters = COUNTERS
    made_with: dict[str, object]

    def __init__(self, spoil: Callable[[int], dict[str, bytes]]) -> None:
        self.n_runs = 0
        self._spoil = spoil

    def __call__(self, **made_with: object) -> FakeExperiment:
        self.made_with = made_with
        return self

    def run(self) -> GuestOutput:
        self.n_runs += 1
        return GuestOutput(self._spoil(self.n_runs), 1.0)


Command = Callable[..., tuple[int, FakeExperiment]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a function that runs the command with fake guests."""

    def call(
        *arguments: str, spoil: Callable[[int], dict[str, bytes]] = lambda _: frames()
    ) -> tuple[int, FakeExperiment]:
        experiment = FakeExperiment(spoil)
        monkeypatch.setattr(determinism, "Experiment", experiment)
        return main(["--load", "0", *arguments]), experiment

    return call


def test_as_many_runs_are_made_as_asked_for(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    status, experiment = command("--runs", "3", "--cpu", "1")
    assert (status, experiment.n_runs) == (0, 3)
    assert experiment.made_with == {"icount": ICOUNT, "cpu": 1, "starter": ()}
    first, _, *rows, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{POINT.label}, seed {SEED}, {LENGTHS}")
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert last.startswith("3 runs, 1 distinct output,")


def test_unordered_runs_are_counted_as_qemu_does_by_itself(command: Command) -> None:
    _, experiment = command("--runs", "2", "--unordered")
    assert experiment.made_with["icount"] == "shift=0,sleep=off"


def test_runs_that_differ_end_with_1_and_say_in_what(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(number: int) -> dict[str, bytes]:
        content = frames()
        if number == 2:
            content["wire_after"] = changed(content["wire_after"], STATUS_FIELDS, "n_polls", 1)
        return content

    assert command("--runs", "3", spoil=spoil)[0] == 1
    rows = capsys.readouterr().out.splitlines()[2:]
    assert ["wire_after.n_polls: 0, then 1" in row for row in rows] == [False, True, False, False]
    assert rows[-1].endswith("counts are different")


@pytest.mark.parametrize(
    "error", [GuestError("the guest ended early"), TargetMissingError("gcc is not installed")]
)
def test_runs_that_cannot_be_made_end_with_2(
    command: Command, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def spoil(_: int) -> dict[str, bytes]:
        raise error

    assert command("--runs", "2", spoil=spoil)[0] == 2
    assert capsys.readouterr().err == f"determinism: {error}\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--runs", "1"], "--runs must be 2 to 10000, got 1"),
        (["--load", "-1"], "--load must be 0 to 1000, got -1"),
        (["--late", "100001"], "--late must be 0 to 100000, got 100001"),
        (["--runs", "many"], "argument --runs: invalid int value: 'many'"),
    ],
)
def test_options_out_of_range_are_refused(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {error}")


# What makes it hard


def test_busy_loops_end_with_what_they_were_for(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, command: list[str]) -> None:
            super().__init__(command)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    while_busy = busy_host(2)
    while_busy.__enter__()
    assert [loop.poll() for loop in started] == [None, None]
    assert not while_busy.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert all(loop.returncode is not None for loop in started)


def test_nothing_is_preloaded_for_a_main_loop_in_time() -> None:
    with late_main_loop(0) as starter:
        assert starter == ()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_a_late_main_loop_is_preloaded_and_removed() -> None:
    with late_main_loop(100) as starter:
        preload = next(part for part in starter if part.startswith("LD_PRELOAD="))
        library = Path(preload.partition("=")[2])
        assert library.is_file()
        greeting = [*starter, sys.executable, "-c", "print('runs')"]
        finished = subprocess.run(greeting, capture_output=True, text=True, timeout=60, check=True)
        assert (finished.stdout, finished.stderr) == ("runs\n", "")
        assert starter[0] == "env"
        assert "LATE_US=100" in starter
    assert not library.exists()
