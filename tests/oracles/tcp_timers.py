"""When a kernel sends again: ip-sysctl.rst, net/ipv4/tcp_timer.c and kernel/time/timer.c.

tcp_retransmit_timer() doubles the time-out after each repetition, but not after the first ones that
tcp_syn_linear_timeouts names; tcp_write_timeout() gives up after tcp_syn_retries besides those. A
timer is put into the wheel, calc_wheel_index(): the level by how far off it is, the bucket behind
its time, calc_index(). In one bucket the timer that was put in last goes off first,
expire_timers(); the simulator keeps that order by a nanosecond for each 65,536 that one has waited.
"""

from __future__ import annotations

BUCKETS, LEVEL_SHIFT = 64, 3
"""LVL_SIZE, LVL_CLK_SHIFT."""
SYN_RETRIES = 6
"""net.ipv4.tcp_syn_retries."""
RTO_MAX_NS = 120_000_000_000
"""TCP_RTO_MAX."""
SYN_ACK_RETRIES = 5
"""net.ipv4.tcp_synack_retries."""


def goes_off_ns(now_ns: int, after_ns: int, tick_ns: int) -> int:
    """Return when a timer goes off that is set at *now_ns* for *after_ns*; 0 ticks: at its time."""
    if tick_ns == 0:
        return now_ns + after_ns
    clock = now_ns // tick_ns
    expires = clock + -(-after_ns // tick_ns)
    level, start = 0, 0
    while True:  # LVL_START(n): (LVL_SIZE - 1) << ((n - 1) * LVL_CLK_SHIFT)
        start = (BUCKETS - 1) << level * LEVEL_SHIFT
        if expires - clock < start:
            break
        level += 1
    bucket = (expires >> level * LEVEL_SHIFT) + 1
    at_ns = (bucket << level * LEVEL_SHIFT) * tick_ns
    return at_ns + (at_ns - now_ns) // 65_536


def syns_ns(sent_ns: int, first_ns: int, linear: int, tick_ns: int) -> tuple[list[int], int]:
    """Return when SYNs are sent that nobody answers, and when connect() fails (ETIMEDOUT)."""
    sent, timeout_ns, n_repeated = [sent_ns], first_ns, 0
    while True:
        fires_ns = goes_off_ns(sent[-1], timeout_ns, tick_ns)
        if n_repeated == SYN_RETRIES + linear:
            return sent, fires_ns
        sent.append(fires_ns)
        n_repeated += 1
        if n_repeated > linear:
            timeout_ns = min(2 * timeout_ns, RTO_MAX_NS)


def syn_acks_ns(sent_ns: int, first_ns: int, tick_ns: int) -> list[int]:
    """Return when reqsk_timer_handler() sends a SYN-ACK again, and at last forgets the connection.

    The time-out doubles each time, after tcp_synack_retries of them the entry is gone; the
    pruning of long queues is not here.
    """
    fires, timeout_ns = [sent_ns], first_ns
    for _ in range(SYN_ACK_RETRIES + 1):
        fires.append(goes_off_ns(fires[-1], timeout_ns, tick_ns))
        timeout_ns *= 2
    return fires[1:]


def data_ns(sent_ns: int, round_trip_ns: int, until_ns: int) -> list[int]:
    """Return when data is sent that nobody acknowledges, up to *until_ns*.

    A probe comes after the time-out that tcp_rtt_estimator() and TCP_RTO_MIN give; the time-out
    itself runs from then, and doubles up to TCP_RTO_MAX.
    """
    sent, timeout_ns = [sent_ns], 200_000_000 + round_trip_ns
    sent.append(sent_ns + timeout_ns)  # tcp_schedule_loss_probe()
    while sent[-1] <= until_ns:
        sent.append(sent[-1] + timeout_ns)
        timeout_ns = min(2 * timeout_ns, RTO_MAX_NS)
    return [at_ns for at_ns in sent if at_ns <= until_ns]
