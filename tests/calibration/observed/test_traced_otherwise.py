"""System calls as perf trace and bpftrace write them down: real samples, and any other text.

In `traced/`, memcached_perf.txt is of perf 6.1 and memcached_bpftrace.txt of bpftrace 0.17, both of
memcached 1.6 (one worker) under four connections of a request each, without the naps of its
housekeeping.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.calibration.observed.bpftrace import bpftrace_program, read_bpftrace
from dispatchsim.calibration.observed.perf_trace import read_perf_trace
from dispatchsim.calibration.observed.recognising import Recognised, recognise
from dispatchsim.calibration.observed.system_calls import Call
from dispatchsim.calibration.records.measured_runs import DataError

TRACED = Path(__file__).parent / "traced"
NAMES = {
    0: "read", 1: "write", 3: "close", 46: "sendmsg", 52: "getpeername", 232: "epoll_wait",
    233: "epoll_ctl", 288: "accept4",
}  # fmt: skip
Reader = Callable[[str, str], list[Call]]


def bpftraced(text: str, where: str) -> list[Call]:
    return read_bpftrace(text, where, NAMES)


def seen(name: str, read: Reader) -> Recognised:
    return recognise(read((TRACED / f"{name}.txt").read_text(), name), 4)


def test_bpftrace_tells_what_strace_does() -> None:
    found = seen("memcached_bpftrace", bpftraced)
    assert (found.mechanism, found.threads, found.hands_over) == ("epoll_level", 1, True)
    assert (found.closes_first, found.calls_per_request["sendmsg"]) == (False, 1.0)


def test_perf_sees_no_flags_and_so_not_which_epoll() -> None:
    found = seen("memcached_perf", read_perf_trace)
    assert found.mechanism is None
    assert any("server.mechanism" in sentence for sentence in found.unknown)
    assert (found.threads, found.hands_over, found.calls_per_request["sendmsg"]) == (1, True, 1.0)


def test_what_perf_wrote_in_two_lines_is_one_call() -> None:
    text = (
        " 1.000 (         ): nginx: a/b/7 epoll_wait(epfd: 3<anon_inode:[eventpoll]>) ...\n"
        "     ? (         ): nginx: a/b/7  ... [continued]: epoll_wait()) = 2\n"
        " 2.000 ( 0.011 ms): nginx: a/b/7 accept4(fd: 10<socket:[1]>) = -1 EAGAIN (Resource)\n"
    )
    assert read_perf_trace(text, "t") == [
        Call(7, "epoll_wait", "3", 2),
        Call(7, "accept4", "10", -1, "EAGAIN"),
    ]


def test_a_thread_that_is_alone_has_no_name() -> None:
    text = (
        "74.783 ( 0.035 ms): accept4(fd: 3<socket:[13]>, flags: 2048)            = 5\n"
        "75.000 (         ): epoll_wait(epfd: 4<anon_inode:[eventpoll]>)         ...\n"
        "     ? (         ):  ... [continued]: epoll_wait())                     = 1\n"
    )
    assert read_perf_trace(text, "t") == [
        Call(0, "accept4", "3, 2048", 5),
        Call(0, "epoll_wait", "4", 1),
    ]


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
    ("read", "text", "message"),
    [
        (read_perf_trace, "LOST 13 events!", "t line 1: perf trace lost 13 calls"),
        (bpftraced, "ready\nLost 4 events", "t line 2: bpftrace lost 4 calls"),
        (read_perf_trace, "hello", 'no system call as perf trace writes it: "hello"'),
        (bpftraced, "1 2 3", 'no system call as written by bpftrace: "1 2 3"'),
        (read_perf_trace, "\n", "no system call: was the server asked"),
        (bpftraced, "ready\n", "no system call: was the server asked"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(read: Reader, text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read(text, "t")
    assert message in str(caught.value)


@given(st.text(alphabet=" ?(): .ms/7read<>[continued]=-1EAGAIN,fd\n0x", max_size=200))
def test_any_text_is_read_as_of_perf_or_refused(text: str) -> None:
    read_or_refused(read_perf_trace, text)


@given(st.text(alphabet="0123456789 -\nLostready", max_size=200))
def test_any_text_is_read_as_of_bpftrace_or_refused(text: str) -> None:
    read_or_refused(bpftraced, text)


def read_or_refused(read: Reader, text: str) -> None:
    try:
        calls = read(text, "t")
    except DataError:
        return
    assert recognise(calls, 1).threads >= 0


def test_the_program_looks_at_all_processes_and_no_other() -> None:
    program = bpftrace_program([12, 13])
    assert program.count("/pid == 12 || pid == 13/") == 3
