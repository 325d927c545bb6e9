"""One program after the other on each mechanism, beside the kernel as its man page has it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.oracles import epoll, signals
from tests.oracles.completions import AioPoll
from tests.oracles.dev_poll import DevPoll, DevPollUnhinted
from tests.oracles.driving import Driven, cost_names
from tests.oracles.machine import IN, OUT, Act, Arrival, Oracle, Story
from tests.oracles.scans import Poll, Select
from tests.oracles.stories import stories

REBUILT: tuple[dict[str, int], ...] = ({}, {"array_rebuilt": 1})
REMEMBERS: tuple[dict[str, int], ...] = ({}, {"remembers": 0})
IN_VECTORS = {"changes_at_once": False}
# The model counts gaps that descriptors have left in the order of the scan as items of it.
SCANS = {"changes_at_once": False, "free": ("register", "look"), "removes": False}
LEAVES = {"changes_at_once": False, "free": ("register", "look", "scan")}
OVERFLOWS: dict[str, Any] = {
    "options": (
        {"signal_queue": 1024, "signal_numbers": 3},
        {"signal_queue": 1},
        {"signal_queue": 2},
        {"signal_queue": 3, "signal_numbers": 2, "signals_elsewhere": 2, "overflow_told_last": 1},
        {"signal_queue": 2, "recovery": signals.NOTHING, "remembers": 0},
        {"signal_queue": 2, "recovery": signals.POLL_UNTIL_CALM, "recovery_array_kept": 1},
        {"signal_queue": 2, "recovery": signals.POLL_UNTIL_CALM, "calm_below": 2},
        {"signal_queue": 1, "recovery": signals.POLL_FOR_EVER},
        {"signal_queue": 4, "poll_above": 2, "calm_below": 2},
    )
}
ORACLES: dict[str, tuple[type[Oracle], dict[str, Any]]] = {
    "select": (Select, {"options": REBUILT, "free": ("look",)}),
    "poll": (Poll, {"options": REBUILT, "free": ("look",)}),
    "epoll_level": (epoll.EpollLevel, {}),
    "epoll_oneshot": (epoll.EpollOneshot, {}),
    "epoll_close": (epoll.EpollClose, {}),
    "epoll_edge": (epoll.EpollEdge, {"options": REMEMBERS}),
    # Unless a descriptor has left, the model repeats a wait for nothing wanted in one step.
    "epoll_once": (epoll.EpollOnce, {"removes": False}),
    "epoll_ctlv": (epoll.EpollCtlv, IN_VECTORS),
    "kqueue": (epoll.Kqueue, IN_VECTORS),
    "get_next_event": (epoll.NextEvent, {"options": REMEMBERS}),
    "in_kernel": (epoll.InKernel, {}),
    "dev_poll": (DevPoll, LEAVES),
    "dev_poll_mmap": (DevPoll, SCANS),
    "dev_poll_unhinted": (DevPollUnhinted, LEAVES),
    "rt_signals": (signals.RtSignals, OVERFLOWS),
    "signal_per_fd": (signals.SignalPerFd, OVERFLOWS),
    "sigtimedwait4": (signals.Sigtimedwait4, OVERFLOWS),
    "signalfd": (signals.Signalfd, OVERFLOWS),
    "aio_poll": (AioPoll, IN_VECTORS),
}


@pytest.mark.parametrize("mechanism", ORACLES)
@settings(max_examples=130, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_wait_returns_what_the_kernel_would(mechanism: str, data: st.DataObject) -> None:
    oracle_of, drawn = ORACLES[mechanism]
    story = data.draw(stories(mechanism, **drawn))
    expected = oracle_of(story).run()
    found = Driven(mechanism, story).run()
    assert [each[:3] for each in found] == [each[:3] for each in expected]
    for one, other in zip(found, expected, strict=True):
        assert {name: one.counts[name] for name in other.counts} == other.counts


@pytest.mark.parametrize("mechanism", ["rt_signals", "signal_per_fd"])
@given(order=st.permutations(range(1, 6)))
def test_a_poll_after_a_loss_reports_the_lowest_first(mechanism: str, order: list[int]) -> None:
    """All are known to block when signals of all come in some order, of which one is kept."""
    acts = [Act("add", fd, IN) for fd in order]
    acts += [Act("wait"), *(Act("drain", fd, IN | OUT) for fd in range(6)), Act("compute", ns=100)]
    costs = dict.fromkeys((name for name, _ in cost_names(mechanism)), 1)
    arrivals = tuple(Arrival(60 + i, fd, IN) for i, fd in enumerate(order))
    story = Story(
        (0,) * 6, (*acts, Act("wait")), arrivals, 9, costs, 1, 1, {"signal_queue": 1}, 1_000
    )
    found = Driven(mechanism, story).run()
    assert found[-1].events == tuple((fd, IN) for fd in range(1, 6))
    assert found[-1][:3] == ORACLES[mechanism][0](story).run()[-1][:3]


@pytest.mark.parametrize("numbers", [2, 3])
@given(order=st.permutations(range(1, 6)))
def test_signals_of_several_numbers_come_lowest_first(numbers: int, order: list[int]) -> None:
    """Most signals are queued when the program comes to its waits, each of which takes one."""
    acts = [Act("add", fd, IN) for fd in order]
    acts += [Act("wait"), *(Act("drain", fd, IN | OUT) for fd in range(6)), Act("compute", ns=100)]
    costs = dict.fromkeys((name for name, _ in cost_names("rt_signals")), 1)
    arrivals = tuple(Arrival(60 + i, fd, IN) for i, fd in enumerate(order))
    options = {"signal_queue": 1_024, "signal_numbers": numbers}
    waits = [Act("wait")] * 5
    story = Story((0,) * 6, (*acts, *waits), arrivals, 1, costs, 1, 1, options, 5_000)
    found = Driven("rt_signals", story).run()
    expected = ORACLES["rt_signals"][0](story).run()
    assert [each[:3] for each in found] == [each[:3] for each in expected]
    assert len({fd for each in found[-5:] for fd, _ in each.events}) >= 3


@pytest.mark.parametrize(
    ("state", "at_ns", "ends_ns"),
    [
        (OUT, 35, 80),  # the first scan, of 40, has passed it: the next one finds it
        (OUT, 5, 40),
        (IN | OUT, 35, 40),  # more of what it was ready for is no news
    ],
)
def test_a_scan_misses_what_was_ready_for_other_things_when_it_passed(
    state: int, at_ns: int, ends_ns: int
) -> None:
    """Readable while poll scans four descriptors, 10 ns each; writable from the beginning."""
    acts = (*(Act("add", fd, IN) for fd in (1, 2, 3)), Act("wait"))
    arrives = (Arrival(at_ns, 1, IN),)
    story = Story((0, state, 0, 0), acts, arrives, 9, {"scan": 10}, 0, 0)
    assert Driven("poll", story).run()[-1][:3] == ("wait", ends_ns, ((1, IN),))
