"""System calls as bpftrace writes them down: a real sample, and any other text.

In `traced/`, memcached_bpftrace.txt is of bpftrace 0.17 and memcached 1.6 (one worker) under four
connections of a request each, without the naps of its housekeeping.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.calibration.observed.recognising import recognise
from dispatchsim.calibration.observed.tracers import Call, bpftrace_program, read_bpftrace
from dispatchsim.calibration.records.measured_runs import DataError

TRACED = Path(__file__).parent / "traced"
NAMES = {
    0: "read", 1: "write", 3: "close", 46: "sendmsg", 52: "getpeername", 232: "epoll_wait",
    233: "epoll_ctl", 288: "accept4",
}  # fmt: skip


def bpftraced(text: str, where: str) -> list[Call]:
    return read_bpftrace(text, where, NAMES)


def test_bpftrace_tells_what_strace_does() -> None:
    name = "memcached_bpftrace"
    found = recognise(bpftraced((TRACED / f"{name}.txt").read_text(), name), 4)
    assert (found.mechanism, found.threads, found.hands_over) == ("epoll_level", 1, True)
    assert (found.closes_first, found.calls_per_request["sendmsg"]) == (False, 1.0)


def test_flags_and_errors_of_bpftrace_are_those_of_strace() -> None:
    text = (
        f"ready\n7 233 0 3 1 5 {1 << 31 | 1}\n7 288 -11 4 0 0 0\n7 233 0 3 2 5 0\n9 999 1 2 3 4 0\n"
    )
    assert bpftraced(text, "t") == [
        Call(7, "epoll_ctl", "3, EPOLL_CTL_ADD, 5, {events=EPOLLIN|EPOLLET}", 0),
        Call(7, "accept4", "4, 0, 0", -1, "EAGAIN"),
        Call(7, "epoll_ctl", "3, EPOLL_CTL_DEL, 5", 0),
        Call(9, "call_999", "2, 3, 4", 1),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ready\nLost 4 events", "t line 2: bpftrace lost 4 calls"),
        ("1 2 3", 'is no system call in the format of our bpftrace program: "1 2 3"'),
        ("ready\n", "has no system call: did the server get"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        bpftraced(text, "t")
    assert message in str(caught.value)


@given(st.text(alphabet="0123456789 -\nLostready", max_size=200))
def test_any_text_is_read_as_of_bpftrace_or_refused(text: str) -> None:
    try:
        calls = bpftraced(text, "t")
    except DataError:
        return
    assert recognise(calls, 1).threads >= 0


def test_the_program_looks_at_all_processes_and_no_other() -> None:
    program = bpftrace_program([12, 13])
    assert program.count("/pid == 12 || pid == 13/") == 3
