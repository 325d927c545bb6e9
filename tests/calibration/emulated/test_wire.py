"""The clients of the wire do what TCP clients do, at the times they were told to.

One guest runs wire_probe.c through single situations; a few more run the web server under small
loads that can be counted by hand.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from dispatchsim.calibration.emulated.guest_image import build_program, init_program, server_program
from dispatchsim.calibration.emulated.guest_run import (
    COUNTERS_PATH,
    SERVER_ADDRESS,
    GuestOutput,
    Job,
    MacroLoad,
    macro_job,
    run_guest,
)
from dispatchsim.calibration.emulated.kernel_build import WIRE_FOLDER, Kernel, build_module

HERE = Path(__file__).parent
SERVERS = HERE.parents[2] / "calibration/c/servers"

DELAY_NS = 50_000
MS = 1_000_000
S = 1_000_000_000
REPLIED, TIMEOUT, RESET, STILL_OPEN = 0, 1, 3, 5
EINVAL, ENXIO, EFAULT, EBUSY, ENOTTY, ENOSPC, ENODATA, ECONNRESET = (
    22, 6, 14, 16, 25, 28, 61, 104,
)  # fmt: skip

# What an interrupt and a system call may take on an idle machine: "on time" means within this.
ON_TIME_NS = 20_000

Row = tuple[int, int, int, int, int]
Record = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Target:
    kernel: Kernel
    wire: Path

    def run(self, job: Job) -> GuestOutput:
        return run_guest(job, kernel=self.kernel, init=init_program())


@dataclass(frozen=True)
class Played:
    records: list[Record]
    status: Mapping[str, int]
    frames: Mapping[str, bytes]


@pytest.fixture(scope="session")
def target(target_kernel: Kernel) -> Target:
    return Target(target_kernel, build_module(WIRE_FOLDER, target_kernel))


@pytest.fixture(scope="session")
def findings(target: Target) -> Mapping[str, int]:
    """Return what the probe found, by name."""
    probe = build_program("wire_probe", [HERE / "wire_probe.c", SERVERS / "program.c"])
    output = target.run(Job("exec", probe, modules=(target.wire,)))
    lines = (line.split() for line in output.text("stdout").splitlines())
    return {name: int(value) for name, value in lines}


def status_fields() -> list[str]:
    """Return the names in `struct wire_status`, in order."""
    text = re.sub(r"/\*.*?\*/", "", (WIRE_FOLDER / "wire.h").read_text(), flags=re.DOTALL)
    declared = re.search(r"struct wire_status \{(.*?)\}", text, re.DOTALL)
    assert declared is not None
    return re.findall(r"uint64_t (\w+);", declared[1])


def trace_text(rows: list[Row], users: int = 0) -> bytes:
    """Return a trace file of *rows*; a closed loop if there are *users*."""
    head = ["# dispatchsim trace 1", f"loop {'closed' if users else 'open'}", f"users {users}"]
    body = [" ".join(map(str, row)) for row in rows]
    return "\n".join([*head, f"connections {len(rows)}", *body, ""]).encode()


def play(
    target: Target, rows: list[Row], *, users: int = 0, backlog: int = 4096, **load: int
) -> Played:
    """Run the web server under *rows*; *load* are fields of MacroLoad."""
    settings = {"records_max": len(rows), "warm_up_ns": MS, "window_ns": 100 * MS, **load}
    arguments = (
        "--mechanism", "epoll_level", "--address", SERVER_ADDRESS, "--port", "8080",
        "--backlog", str(backlog), "--fd-limit", "30000", "--counters", COUNTERS_PATH,
    )  # fmt: skip
    job = macro_job(
        server_program(),
        arguments,
        MacroLoad(trace=trace_text(rows, users), **settings),
        (target.wire,),
    )
    frames = target.run(job).frames
    fields = status_fields()
    status = dict(zip(fields, struct.unpack(f"<{len(fields)}Q", frames["wire_end"]), strict=True))
    return Played(list(struct.iter_unpack("<5q", frames["records"])), status, frames)


def assert_conserved(played: Played) -> None:
    status = played.status
    ended = sum(status[f"n_{name}"] for name in ("replied", "timeout", "refused", "reset"))
    still_open = sum(record[4] == STILL_OPEN for record in played.records)
    assert status["n_lost"] == 0
    assert status["n_started"] == len(played.records)
    assert status["n_finished"] == ended == status["n_started"] - still_open


def test_what_cannot_be_done_is_refused(findings: Mapping[str, int]) -> None:
    expected = {
        "not_configured": ENXIO,
        "unknown_order": ENOTTY,
        "nothing_played": ENODATA,
        "while_playing": EBUSY,
        "rows_nowhere": EFAULT,
        "more_than_configured": ENOSPC,
        **dict.fromkeys(
            [
                "port_0", "delay_too_long", "too_many_connections", "unknown_connection",
                "n_too_large", "unsorted_rows", "request_too_long", "begin_in_the_past",
                "no_users",
            ],
            EINVAL,
        ),
    }  # fmt: skip
    assert {name: findings[name] for name in expected} == expected


def test_bytes_and_resets_arrive_one_delay_after_they_left(findings: Mapping[str, int]) -> None:
    assert findings["raw_bytes"] == 1
    assert 0 < findings["raw_late_ns"] < ON_TIME_NS
    assert findings["reset_error"] == ECONNRESET
    assert 0 < findings["reset_late_ns"] < ON_TIME_NS
    assert findings["gone"] == 1


def test_what_is_not_answered_is_acknowledged_after_40_ms(findings: Mapping[str, int]) -> None:
    assert findings["acknowledged_after_39_ms"] == 0
    assert findings["acknowledged_after_41_ms"] == 1


def test_requests_follow_the_protocol_in_any_length(findings: Mapping[str, int]) -> None:
    assert findings["long_request_bytes"] == 14_480
    assert findings["long_request_begins"] == 1
    assert findings["long_request_end"] == 14_480 - 4
    assert findings["short_request_bytes"] == 40
    assert findings["short_request_is_good"] == 1
    assert findings["replies_by_hand"] == 2
    assert findings["after_the_last_reply"] == ECONNRESET


@pytest.mark.parametrize(
    ("situation", "status"), [("speechless", RESET), ("talkative", RESET), ("mute", TIMEOUT)]
)
def test_a_bad_server_is_told_from_a_good_one(
    findings: Mapping[str, int], situation: str, status: int
) -> None:
    assert findings[f"{situation}_status_0"] == status
    assert findings[f"{situation}_done_0"] == -1


def test_a_client_gives_up_in_time(findings: Mapping[str, int]) -> None:
    assert findings["given_up_error"] == ECONNRESET
    assert 0 < findings["given_up_late_ns"] < ON_TIME_NS


def test_a_request_the_server_had_no_room_for_comes_again(findings: Mapping[str, int]) -> None:
    assert [findings[f"crowd_status_{i}"] for i in range(3)] == [REPLIED] * 3
    # The server begins to accept at 300 ms; the third asks again 200 and 400 ms after it asked.
    assert all(findings[f"crowd_done_{i}"] < 310 * MS for i in range(2))
    assert 600 * MS < findings["crowd_done_2"] < 603 * MS
    assert findings["crowd_request_retries"] == 2
    assert findings["lost"] == 0


def test_the_packets_of_one_connection_can_be_counted(target: Target) -> None:
    """SYN, ACK, request, RST; of the 3000 bytes the second of three segments is acknowledged."""
    played = play(target, [(10 * MS, 1, 64, 3_000, 0)])
    assert_conserved(played)
    assert played.status["n_packets_to_server"] == 4 + 1
    # SYN-ACK, acknowledgement of the request, three segments, FIN.
    assert played.status["n_packets_from_server"] == 6
    ((intended, started, connected, done, status),) = played.records
    assert (intended, started, status) == (10 * MS, 10 * MS, REPLIED)
    assert 2 * DELAY_NS < connected - started < 2 * DELAY_NS + ON_TIME_NS
    assert 2 * DELAY_NS < done - connected < 2 * DELAY_NS + 5 * ON_TIME_NS


def test_a_mixed_load_is_replied_to_the_last_byte_and_repeats_itself(target: Target) -> None:
    """Long requests, replies of many segments, several requests with and without a pause."""
    kinds = [(1, 64, 128, 0), (3, 64, 20_000, 0), (2, 5_000, 128, 700_000), (4, 64, 128, 0)]
    rows = [(i * 310_000, *kinds[i % 4]) for i in range(200)]
    first, second = (play(target, rows) for _ in range(2))
    assert_conserved(first)
    assert first.status["n_replied"] == 200
    assert first.status["n_replies"] == sum(row[1] for row in rows)
    assert [record[1] for record in first.records] == [row[0] for row in rows]
    assert all(0 <= b < c < d for _, b, c, d, _ in first.records)
    assert first.frames == second.frames


def test_eight_users_open_the_next_connection_after_the_last(target: Target) -> None:
    """Each start but the first eight is the end of another connection, plus its pause."""
    rows: list[Row] = [(0, 1, 64, 128, 0), (0, 2, 64, 128, MS), (0, 1, 64, 5_000, MS // 2)]
    played = play(target, rows, users=8, records_max=2_000, window_ns=40 * MS)
    assert_conserved(played)
    assert len(played.records) > 100
    assert played.status["n_open_max"] == 8
    think_ns = [rows[k % 3][4] for k in range(len(played.records))]
    next_ns = {done + pause for (*_, done, _), pause in zip(played.records, think_ns, strict=True)}
    starts_ns = [record[1] for record in played.records]
    assert starts_ns[:8] == [0] * 8
    assert all(start in next_ns for start in starts_ns[8:])
    assert all(a <= b for a, b in itertools.pairwise(starts_ns))


def test_who_finds_the_queue_full_knocks_again(target: Target) -> None:
    """Twenty at once, and room for two: the others come again after 1 s, 3 s, 7 s."""
    rows: list[Row] = [(MS, 1, 64, 128, 0)] * 20
    played = play(target, rows, backlog=1, window_ns=4 * S, timeout_ns=2 * S)
    assert_conserved(played)
    assert played.status["n_syn_retries"] == 18
    connected = [connected for _, _, connected, _, _ in played.records if connected >= 0]
    assert [round(at / S) for at in connected] == [0, 0, 1, 1]
    assert [record[4] for record in played.records] == [REPLIED] * 4 + [TIMEOUT] * 16
