"""What a softirq does with packets, from Linux kernel/softirq.c and net/core/dev.c.

net_rx_action() handles packets one after the other; those that come meanwhile ride along, without
an interrupt of their own. process_backlog() returns after 64, and handle_softirqs() then asks for
the time: `jiffies` counts ticks, and from MAX_SOFTIRQ_TIME on the rest is left to ksoftirqd, as is
what is beyond a budget. That thread has all packets from then on until none is left;
enqueue_to_backlog() drops what is above netdev_max_backlog. An idle CPU takes a while to come out
of idleness. An interrupt costs the more the longer ago the last one was, by whole microseconds: its
code has left the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

WEIGHT = 64
"""net.core.dev_weight."""
SOFTIRQ_NS = 2_000_000
"""MAX_SOFTIRQ_TIME; msecs_to_jiffies() rounds it up to whole ticks."""


class Prices(NamedTuple):
    """What things take, in ns: `since_ns` for each whole microsecond since the last interrupt."""

    idle_exit: int
    entry: int
    packet: int
    since: int


class Softirqs(NamedTuple):
    """What became of the packets, and how long the CPU was in interrupts and in ksoftirqd."""

    n_interrupts: int
    n_handled_at_once: int
    n_left: int
    n_dropped: int
    interrupt_ns: int
    thread_ns: int


def softirqs(
    packets_ns: Sequence[int], prices: Prices, budget: int, room: int, end_ns: int, *, tick_ns: int
) -> Softirqs:
    """Return what becomes of packets that arrive at an idle CPU at *packets_ns*, ascending.

    With a *budget* of 0 nothing is left. No other thread is runnable, and all ends by *end_ns*.
    """
    last_ticks = -(-SOFTIRQ_NS // tick_ns)
    end_tick = 0  # `end` of the softirq that runs
    n_interrupts = n_at_once = n_left = n_dropped = in_one_go = 0
    interrupt_ns = 0
    free_ns = -1  # when the last interrupt ended
    waiting: list[int] = []  # packets that ksoftirqd has not begun
    thread_free_ns = -1  # when ksoftirqd is through with what it has
    for at_ns in packets_ns:
        while waiting and thread_free_ns < at_ns:  # it takes the next
            waiting.pop(0)
            thread_free_ns += prices.packet
        if thread_free_ns >= at_ns:  # it is awake: it has all packets
            if len(waiting) < room:
                waiting.append(at_ns)
                n_left += 1
            else:
                n_dropped += 1
            continue
        if free_ns < at_ns:
            in_one_go = 0
        round_ends = in_one_go > 0 and in_one_go % WEIGHT == 0
        is_late = round_ends and free_ns // tick_ns >= end_tick
        if budget and (in_one_go == budget or is_late):
            # The interrupt is over before the thread begins.
            waiting.append(at_ns)
            n_left += 1
            thread_free_ns = free_ns
            continue
        in_one_go += 1
        n_at_once += 1
        cost_ns = prices.packet
        if free_ns < at_ns:
            begin_ns = at_ns + prices.idle_exit
            cost_ns += prices.entry + prices.since * ((begin_ns - free_ns) // 1_000)
            n_interrupts += 1
            free_ns = begin_ns
            end_tick = begin_ns // tick_ns + last_ticks
        interrupt_ns += cost_ns
        free_ns += cost_ns
    assert max(free_ns, thread_free_ns + len(waiting) * prices.packet) <= end_ns
    thread_ns = n_left * prices.packet
    return Softirqs(n_interrupts, n_at_once, n_left, n_dropped, interrupt_ns, thread_ns)
