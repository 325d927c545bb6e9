"""A naive model of two threads on two CPUs, one of which hands descriptors over to the other.

The worker sends one every *send_ns*. The sibling takes *receive_ns* for each, and sleeps where
none has come: 40 to fall asleep, 1000 out of idleness, 500 to wake up. A message that comes while
it falls asleep keeps it awake, and it wakes up all the same. The worker's CPU is first at a tie.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.served import on_server
from tests.steps import timelines
from tests.toy import SIGNALS, arrivals, toy_costs

from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.family_settings import Recovery

FLUSHED_NS = 12_371
"""When the first is sent: tests/models/signals/test_sibling.py."""


def all_received_ns(n: int, send_ns: int, receive_ns: int) -> int:
    """Return when the last of *n* descriptors has been received."""
    now_ns = 0
    sleeps = True
    for i in range(1, n + 1):
        sent_ns = FLUSHED_NS + i * send_ns
        if sleeps:
            now_ns = sent_ns + 1_000 + 500
        elif sent_ns > now_ns:
            asleep_ns = now_ns + 40
            now_ns = asleep_ns + 500 if sent_ns <= asleep_ns else sent_ns + 1_000 + 500
        sleeps = False
        now_ns += receive_ns
    return now_ns


@settings(max_examples=100)
@given(n=st.integers(1, 30), send_ns=st.integers(1, 3_000), receive_ns=st.integers(1, 3_000))
def test_a_sibling_polls_when_it_has_received_the_last(
    n: int, send_ns: int, receive_ns: int
) -> None:
    costs = toy_costs("rt_signals")
    costs = costs._replace(mechanism=SIGNALS._replace(send_fd_ns=send_ns, receive_fd_ns=receive_ns))
    server = on_server(
        signal_queue=1, cpus=2, recovery=int(Recovery.POLL_FOR_EVER), recovery_hands_over=True
    )
    steps, _ = timelines(
        arrivals(10_000, 10_000),
        server,
        200_000,
        "rt_signals",
        client=ClientSettings(idle=n - 1),  # the listener is one of them
        costs=costs,
    )
    received_ns = all_received_ns(n, send_ns, receive_ns)
    accepts_ns = next(begin for begin, _, name in steps[1] if name == "ACCEPT")
    assert accepts_ns == received_ns + 10 * n + 4  # poll, and its event: the listener
