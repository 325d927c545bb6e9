"""What servers are, told from their system calls: four real ones, and what few lines must show.

`traced/` has what strace 6.1 wrote of nginx 1.22, memcached 1.6 (one worker; with epoll, and with
EVENT_NOEPOLL=1) and Redis 7.0, each asked by 8 users with two requests a connection.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.calibration.observed.recognising import Recognised, recognise
from dispatchsim.calibration.observed.tracers import read_calls
from dispatchsim.calibration.records.measured_runs import DataError

TRACED = Path(__file__).parent / "traced"
REQUESTS = {"nginx": 200, "memcached": 96, "memcached_poll": 112, "redis": 80}


def seen(name: str) -> Recognised:
    return recognise(read_calls((TRACED / f"{name}.txt").read_text(), name), REQUESTS[name])


def of_lines(*lines: str) -> Recognised:
    text = "".join(f"7 {line}\n" for line in lines)
    return recognise(read_calls(text, "lines"), 1)


@pytest.mark.parametrize(
    ("name", "mechanism", "accept_limit", "closes_first", "hands_over"),
    [
        ("nginx", "epoll_edge", 1, True, False),
        ("memcached", "epoll_level", 1, False, True),
        ("memcached_poll", "poll", 1, False, True),
        ("redis", "epoll_level", 0, False, False),
    ],
)
def test_real_servers_are_recognised(
    name: str, mechanism: str, accept_limit: int, closes_first: bool, hands_over: bool
) -> None:
    found = seen(name)
    assert found.mechanism == mechanism
    assert found.accept_limit == accept_limit
    assert found.closes_first is closes_first
    assert found.hands_over is hands_over
    assert found.threads == 1
    assert found.unknown == ()


def test_what_nginx_calls_for_a_request() -> None:
    found = seen("nginx")
    assert found.calls_per_request["recvfrom"] == found.calls_per_request["writev"] == 1.0
    assert found.calls_per_connection["epoll_ctl"] == 1.0  # edge-triggered: told once
    assert found.reads_after_accept is False


WAIT = "epoll_wait(3, [{events=EPOLLIN, data={u32=5, u64=5}}], 512, -1) = 1"
ACCEPT = "accept4(4, NULL, NULL, SOCK_NONBLOCK) = 5"
NONE_LEFT = "accept4(4, NULL, NULL, 0) = -1 EAGAIN (Resource temporarily unavailable)"
READ = 'read(5, "x", 100) = 1'


@pytest.mark.parametrize(
    ("change", "mechanism"),
    [
        ("EPOLL_CTL_ADD, 5, {events=EPOLLIN, data=", "epoll_close"),
        ("EPOLL_CTL_ADD, 5, {events=EPOLLIN|EPOLLET, data=", "epoll_edge"),
        ("EPOLL_CTL_ADD, 5, {events=EPOLLIN|EPOLLONESHOT, data=", "epoll_oneshot"),
        ("EPOLL_CTL_ADD, 5, {events=EPOLLIN|EPOLLOUT, data=", "epoll_once"),
    ],
)
def test_the_flags_of_an_interest_say_which_epoll(change: str, mechanism: str) -> None:
    assert of_lines(WAIT, ACCEPT, f"epoll_ctl(3, {change}...) = 0", READ).mechanism == mechanism


def test_an_interest_that_is_withdrawn_is_level_triggered() -> None:
    lines = [
        "epoll_ctl(3, EPOLL_CTL_ADD, 5, {events=EPOLLIN, data=...}) = 0",
        "epoll_ctl(3, EPOLL_CTL_DEL, 5, NULL) = 0",
    ]
    assert of_lines(WAIT, ACCEPT, *lines, READ).mechanism == "epoll_level"


@pytest.mark.parametrize(
    ("wait", "mechanism"),
    [
        ("select(9, [4 5], [], NULL, NULL) = 1 (in [5])", "select"),
        ("ppoll([{fd=5, events=POLLIN}], 1, NULL, NULL, 8) = 1 ([{fd=5}])", "poll"),
        ("rt_sigtimedwait([RT_1], {si_signo=RT_1}, NULL, 8) = 35 (SIGRT_1)", "rt_signals"),
        ("io_uring_enter(3, 1, 1, IORING_ENTER_GETEVENTS, NULL, 8) = 1", "io_uring"),
    ],
)
def test_the_call_that_waits_names_the_mechanism(wait: str, mechanism: str) -> None:
    assert of_lines(wait, ACCEPT, READ).mechanism == mechanism


def test_threads_that_only_read_block() -> None:
    assert of_lines(ACCEPT, READ).mechanism == "blocking"


def test_who_accepts_until_there_is_none_has_no_limit() -> None:
    assert of_lines(*[WAIT, ACCEPT, ACCEPT, NONE_LEFT] * 3, WAIT, READ).accept_limit == 0
    assert of_lines(*[WAIT, ACCEPT, ACCEPT] * 3, WAIT, READ).accept_limit == 2


def test_too_few_that_came_together_leave_the_limit_open() -> None:
    found = of_lines(WAIT, ACCEPT, WAIT, READ)
    assert found.accept_limit is None
    assert any("server.accept_limit" in sentence for sentence in found.unknown)


def test_a_read_before_the_next_wait_follows_the_accept() -> None:
    assert of_lines(WAIT, ACCEPT, READ, WAIT).reads_after_accept is True
    assert of_lines(WAIT, ACCEPT, WAIT, READ).reads_after_accept is False


def test_a_call_that_was_interrupted_by_another_thread_is_put_together() -> None:
    text = (
        "7 read(5,  <unfinished ...>\n"
        "8 +++ exited with 0 +++\n"
        "7 --- SIGCHLD {si_signo=SIGCHLD} ---\n"
        '7 <... read resumed>"GET / HTT"..., 1024) = 35\n'
        "9 poll([{fd=3, events=POLLIN}], 1, -1 <unfinished ...>\n"
    )
    (call,) = read_calls(text, "text")
    assert (call.thread, call.name, call.fd, call.result) == (7, "read", 5, 35)


def test_what_strace_does_not_write_names_the_line() -> None:
    with pytest.raises(DataError, match=r'^t line 2: is no system call .*"hello"'):
        read_calls("7 close(5) = 0\nhello\n", "t")
    with pytest.raises(DataError, match="has no system call: did the server get"):
        read_calls("", "t")


@pytest.mark.parametrize("result", ["007", "9" * 5000, "0x" + "f" * 400, "0x7ff3d0010e80"])
def test_odd_numbers_are_read_or_refused(result: str) -> None:
    try:
        (call,) = read_calls(f"7 mmap(NULL) = {result}\n", "t")
    except DataError:
        return
    assert call.result in (7, 0x7FF3D0010E80)


@given(st.text(alphabet="7 read(5, )=+-<>.resumed unfinished\n?0xE", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        calls = read_calls(text, "t")
    except DataError:
        return
    # Whoever has accepted no connection serves none.
    assert recognise(calls, 1).threads == 0


def as_traced(mechanism: str, limit: int, rounds: list[int], *, reads_first: bool) -> list[str]:
    """Return what strace prints of a server whose waits find so many connections, in turn.

    The first descriptor is 5; all connections are read from and closed by the server.
    """
    wait, adds = WAYS[mechanism]
    lines: list[str] = []
    first_fd = 5
    for n_waiting in rounds:
        lines.append(wait)
        n_taken = min(n_waiting, limit or n_waiting)
        taken = range(first_fd, first_fd + n_taken)
        for fd in taken:
            lines.append(f"accept4(4, NULL, NULL, 0) = {fd}")
            if adds:
                lines.append(f"epoll_ctl(3, EPOLL_CTL_ADD, {fd}, {{events={adds}, data=0}}) = 0")
        if not limit:
            lines.append(NONE_LEFT)
        if not reads_first:
            lines.append(wait)
        for fd in taken:
            lines += [f'read({fd}, "x", 100) = 1', f'write({fd}, "y", 1) = 1', f"close({fd}) = 0"]
        first_fd += n_taken
    return lines


WAYS = {
    "select": ("select(9, [4], [], NULL, NULL) = 1 (in [4])", ""),
    "poll": ("poll([{fd=4, events=POLLIN}], 1, -1) = 1 ([{fd=4}])", ""),
    "epoll_close": (WAIT, "EPOLLIN"),
    "epoll_edge": (WAIT, "EPOLLIN|EPOLLET"),
    "epoll_oneshot": (WAIT, "EPOLLIN|EPOLLONESHOT"),
    "epoll_once": (WAIT, "EPOLLIN|EPOLLOUT"),
    "rt_signals": ("rt_sigtimedwait([RT_1], {si_signo=RT_1}, NULL, 8) = 35 (SIGRT_1)", ""),
}
"""How a server waits, and the flags under which it registers a connection."""


@given(
    st.sampled_from(sorted(WAYS)),
    st.integers(0, 4),
    # Ten rounds are judged; the last one is not, as no wait follows it.
    st.lists(st.integers(4, 9), min_size=11, max_size=20),
    st.booleans(),
)
def test_a_server_is_recognised_from_what_strace_prints_of_it(
    mechanism: str, limit: int, rounds: list[int], reads_first: bool
) -> None:
    found = of_lines(*as_traced(mechanism, limit, rounds, reads_first=reads_first))
    assert found.mechanism == mechanism
    assert found.accept_limit == limit
    assert found.reads_after_accept is reads_first
    assert found.closes_first is True
    assert (found.threads, found.hands_over) == (1, False)
    assert found.unknown == ()
