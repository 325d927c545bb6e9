"""The flood and the process beside it keep their contract: bounded, on schedule, counted.

Over loopback, where the sender's CPU receives: what a flood costs is not asked here.
"""

from __future__ import annotations

import itertools
import json
import signal
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.calibration.c.c_programs import DEADLINE_S, assert_refused

MS_NS = 1_000_000


def write_schedule(path: Path, due_ns: list[int]) -> Path:
    """Write due times as `flood` reads them."""
    path.write_bytes(struct.pack(f"<{len(due_ns)}q", *due_ns))
    return path


class Progress:
    """A running `progress` and its port."""

    def __init__(self, programs: Path, folder: Path, *options: str) -> None:
        self.samples = folder / "samples"
        self.process = subprocess.Popen(
            [str(programs / "progress"), "--samples", str(self.samples), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        word, port = self.process.stdout.readline().split()
        assert word == "ready"
        self.port = int(port)

    def result(self) -> tuple[dict[str, Any], list[tuple[int, ...]]]:
        """Wait for its end; return the summary and the rows."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        # Not by communicate(), which does not see what was read ahead with the first line.
        with self.process.stdout as printed, self.process.stderr as complaints:
            output, errors = printed.read(), complaints.read()
        assert (self.process.wait(DEADLINE_S), errors) == (0, "")
        rows = list(struct.iter_unpack("<4q", self.samples.read_bytes()))
        return json.loads(output), rows


def run_flood(
    programs: Path, port: int, schedule: Path, *options: str
) -> tuple[dict[str, Any], list[tuple[int, ...]]]:
    """Send a schedule; return the summary and the records."""
    records = schedule.with_suffix(".records")
    finished = subprocess.run(
        [
            *(str(programs / "flood"), "--port", str(port), "--schedule", str(schedule)),
            *("--records", str(records), "--quiet-ms", "5", *options),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    start, summary = finished.stdout.splitlines()
    assert start.startswith("start ")
    return json.loads(summary), list(struct.iter_unpack("<2q", records.read_bytes()))


def test_a_flood_sends_its_schedule_and_a_full_socket_drops_it(
    programs: Path, tmp_path: Path
) -> None:
    progress = Progress(programs, tmp_path, "--seconds", "0.5", "--receive-buffer", "1")
    due_ns = [i // 4 * MS_NS for i in range(200)]  # trains of 4
    schedule = write_schedule(tmp_path / "schedule", due_ns)
    flood, records = run_flood(programs, progress.port, schedule)
    summary, rows = progress.result()
    assert (flood["due"], flood["sent"], flood["refused"]) == (200, 200, 0)
    assert len(records) == 200
    for due, (at_ns, took_ns) in zip(due_ns, records, strict=True):
        assert at_ns >= due
        assert took_ns > 0
    # Some fit the smallest buffer there is; nobody reads them, so all others are dropped.
    assert 150 <= summary["drops"] < 200
    assert summary["rows"] == len(rows)
    assert summary["rows_lost"] == 0


def test_a_packet_of_several_datagrams_is_taken_apart_by_the_receiver(
    programs: Path, tmp_path: Path
) -> None:
    progress = Progress(programs, tmp_path, "--seconds", "0.5", "--receive-buffer", "1")
    schedule = write_schedule(tmp_path / "schedule", [i * MS_NS for i in range(50)])
    flood, records = run_flood(programs, progress.port, schedule, "--segments", "8")
    summary, _ = progress.result()
    assert (flood["sent"], flood["refused"], len(records)) == (50, 0, 50)
    assert 350 <= summary["drops"] < 400


def test_progress_counts_every_chunk_and_its_rows_are_in_order(
    programs: Path, tmp_path: Path
) -> None:
    summary, rows = Progress(programs, tmp_path, "--seconds", "0.1").result()
    assert rows[-1][2] <= summary["chunks"]
    for (at_ns, length_ns, n_chunks, _), following in itertools.pairwise(rows):
        assert following[0] >= at_ns + length_ns
        assert following[2] > n_chunks
    regular = [row for row in rows if row[3] > 0]
    assert len(regular) >= 2
    assert [row[3] for row in regular] == sorted(row[3] for row in regular)
    assert all(length_ns >= 1000 for _, length_ns, _, cpu_ns in rows if cpu_ns == 0)


def test_a_flood_ends_by_its_time_however_long_its_schedule(programs: Path, tmp_path: Path) -> None:
    schedule = write_schedule(tmp_path / "schedule", [0, MS_NS, 3_600_000 * MS_NS])
    process = subprocess.Popen(
        [
            *(str(programs / "flood"), "--port", "9", "--schedule", str(schedule)),
            *("--quiet-ms", "0", "--seconds-max", "3000"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("start ")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert json.loads(output)["sent"] + json.loads(output)["refused"] <= 2
    summary, records = run_flood(
        programs,
        9,
        write_schedule(tmp_path / "short", [i * MS_NS for i in range(1000)]),
        *("--seconds-max", "0.02"),
    )
    assert summary["due"] == 1000
    assert len(records) == summary["sent"] + summary["refused"] <= 20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must hold 1 to 4000000 times of 8 bytes, got 0 bytes or more"),
        (b"1234567", "must hold 1 to 4000000 times of 8 bytes, got 7 bytes or more"),
        (struct.pack("<2q", 5, 4), "must ascend from 0, but time 1 is 4"),
        (struct.pack("<q", -1), "must ascend from 0, but time 0 is -1"),
        (bytes(32_000_008), "must hold 1 to 4000000 times of 8 bytes, got 32000008 bytes or more"),
    ],
)
def test_a_broken_schedule_is_refused(
    content: bytes, message: str, programs: Path, tmp_path: Path
) -> None:
    (tmp_path / "schedule").write_bytes(content)
    finished = subprocess.run(
        [str(programs / "flood"), "--port", "9", "--schedule", str(tmp_path / "schedule")],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (2, f"flood: --schedule {message}\n")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("flood", "--schedule", "x"), "flood: --port must be given"),
        (("flood", "--port", "9"), "flood: --schedule must be given"),
        (
            ("flood", "--port", "9", "--schedule", "/nowhere"),
            'flood: --schedule must be a readable file, got "/nowhere": No such file or directory',
        ),
        (
            ("flood", "--payload", "1401"),
            'flood: --payload must be between 0 and 1400, got "1401"',
        ),
        (
            ("flood", "--seconds-max", "3601"),
            'flood: --seconds-max must be between 0.001 and 3600, got "3601"',
        ),
        (
            ("flood", "--port", "9", "--schedule", "x", "--payload", "0", "--segments", "2"),
            "flood: --payload must be at least 1 with --segments, got 0",
        ),
        (
            ("flood", "--segments", "41"),
            'flood: --segments must be between 1 and 40, got "41"',
        ),
        (("progress",), "progress: --samples must be given"),
        (
            ("progress", "--receive-buffer", "0"),
            'progress: --receive-buffer must be between 1 and 1073741824, got "0"',
        ),
        (
            ("progress", "--samples", "x", "--address", "here"),
            'progress: --address must be a dotted IPv4 address, got "here"',
        ),
    ],
)
def test_bad_options_are_refused_in_one_line(
    command: tuple[str, ...], message: str, programs: Path
) -> None:
    assert_refused(programs, command, message)


def test_samples_that_cannot_be_written_are_a_failure(programs: Path) -> None:
    finished = subprocess.run(
        [str(programs / "progress"), "--seconds", "0.01", "--samples", "/nowhere/samples"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert finished.returncode == 1
    assert "cannot write the samples" in finished.stderr
