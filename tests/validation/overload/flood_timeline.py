"""What Linux does with packets that interrupt a process: its rules, one packet after the other.

    call ─ enqueue ─► backlog ─ signal ─► CPU stops ─ entry ─ packet ... packet ─► process goes on
                        ▲ ▲ ▲                                  │
                        │ │ └ at most 1000, the rest is lost    └ 64 a pass; after ten passes, or at
                        │ └ no signal while packets wait          a tick, what is left is deferred:
                        └ one signal for all that ride along      one pass a tick, and ksoftirqd

An oracle: it shares no code with the engines that it is compared with. Deferred packets have no
signals: each tick of the clock that interrupts the process handles one pass of them, and ksoftirqd,
a thread at nice 0, has its share of the CPU and empties the backlog if it can.

Sources: Linux 6.18 net/core/dev.c, enqueue_to_backlog(), process_backlog(), net_rx_action();
kernel/softirq.c, handle_softirqs(); kernel/sched/core.c, sched_prio_to_weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dispatchsim.calibration.fit.packets import FloodPrices
from dispatchsim.sim.state.kinds import weight_of_nice

PASS_PACKETS = 64
"""net.core.dev_weight."""
PASSES_MAX = 10
"""MAX_SOFTIRQ_RESTART."""
BACKLOG_MAX = 1000
"""net.core.netdev_max_backlog."""
TICK_NS = 4_000_000
"""CONFIG_HZ=250."""


@dataclass(frozen=True)
class Forecast:
    """What becomes of a flood: shares and counts over *length_ns*.

    `arrivals_ns` says when each packet was in the backlog, from the first due time.
    """

    progress: float
    sent: int
    dropped: int
    interrupts: int
    length_ns: int
    arrivals_ns: tuple[int, ...]


class _Timeline:
    """The sender and the CPU it interrupts; times are ns from the first due time."""

    def __init__(self, prices: FloodPrices, segments: int, nice: int) -> None:
        self.prices = prices
        self.packet_ns = prices.taken_ns(segments)
        self.nice = nice
        self.free_ns = -1e9  # when the last interrupt ended
        self.taken_ns = 0.0
        self.waiting = 0  # packets in the backlog that are deferred
        self.deferred_since_ns = -1.0  # negative: nothing is
        self.in_pass = 0
        self.next_tick_ns = 0.0
        self.process_has_cpu = True
        self.runtime_ns = [0.0, 0.0]  # of the process and of ksoftirqd, by weight
        self.interrupts = self.dropped = 0

    def arrives(self, call_ns: float) -> bool:
        """Let a packet come whose call begins then; return whether the call had to signal."""
        at_ns = call_ns + self.prices.enqueued_ns
        if self.deferred_since_ns >= 0:
            self._ticks_until(at_ns)
        if self.deferred_since_ns >= 0:
            if self.waiting < BACKLOG_MAX:
                self.waiting += 1
            else:
                self.dropped += 1
            return False
        if at_ns >= self.free_ns:
            self._interrupt(call_ns + self.prices.stop_ns)
            return True
        self._rides_along(at_ns)
        return False

    def _interrupt(self, stop_ns: float) -> None:
        prices, since_us = self.prices, (stop_ns - self.free_ns) / 1000
        entry_ns = float(np.interp(since_us, prices.since_us, prices.entry_ns))
        self.interrupts += 1
        self.in_pass = 1
        self.began_ns = stop_ns
        self.free_ns = stop_ns + entry_ns + self.packet_ns
        self.taken_ns += entry_ns + self.packet_ns

    def _rides_along(self, at_ns: float) -> None:
        """Handle one packet more in the interrupt that is under way, or leave it to ksoftirqd."""
        behind = (self.free_ns - max(at_ns, self.began_ns)) / self.packet_ns
        ticked = self.free_ns // TICK_NS > self.began_ns // TICK_NS
        # Only one who is behind by a whole pass begins another one: else the backlog was empty.
        if behind < 1:
            self.in_pass = 0
        self.in_pass += 1
        full = self.in_pass > PASS_PACKETS
        if (full and ticked) or self.in_pass > PASS_PACKETS * PASSES_MAX:
            self.deferred_since_ns = self.free_ns
            self.next_tick_ns = (self.free_ns // TICK_NS + 1) * TICK_NS
            self.process_has_cpu = True
            self.waiting = 1
            return
        self.free_ns += self.packet_ns
        self.taken_ns += self.packet_ns

    def _ticks_until(self, at_ns: float) -> None:
        """Let the clock tick until *at_ns*, with packets deferred."""
        while self.deferred_since_ns >= 0 and self.next_tick_ns <= at_ns:
            self._tick()

    def _tick(self) -> None:
        begin_ns, self.next_tick_ns = self.next_tick_ns, self.next_tick_ns + TICK_NS
        pass_ns = 0.0
        if self.process_has_cpu:
            handled = min(self.waiting, PASS_PACKETS)
            self.waiting -= handled
            pass_ns = handled * self.packet_ns
            self.taken_ns += pass_ns
        # Who had less of the CPU, by weight, has it until the next tick.
        process_ns, thread_ns = self.runtime_ns
        self.process_has_cpu = process_ns <= thread_ns
        if self.process_has_cpu:
            self.runtime_ns[0] += (TICK_NS - pass_ns) / weight_of_nice(self.nice)
            return
        self.runtime_ns[1] += (TICK_NS - pass_ns) / weight_of_nice(0)
        # The backlog refills meanwhile: it empties only if packets are handled faster than sent.
        self.taken_ns += TICK_NS - pass_ns
        if self.packet_ns < self.prices.call_ns:
            self.taken_ns -= max(0.0, TICK_NS - pass_ns - self.waiting * self.packet_ns)
            self.deferred_since_ns = -1.0
            self.free_ns = begin_ns + pass_ns + self.waiting * self.packet_ns
            self.waiting = 0
        else:
            self.waiting = BACKLOG_MAX


def flood_forecast(
    due_ns: Sequence[int], prices: FloodPrices, *, segments: int = 1, nice: int = 0
) -> Forecast:
    """Return what becomes of packets that a sender is to send at *due_ns*, in ns, ascending.

    It is late where its calls take longer than there is time between two packets.
    """
    timeline = _Timeline(prices, segments, nice)
    free_ns, last_ns = 0.0, float(due_ns[-1])
    arrivals_ns = []
    for due in due_ns:
        begin_ns = max(float(due), free_ns)
        if begin_ns > last_ns:
            break
        signalled = timeline.arrives(begin_ns)
        free_ns = begin_ns + (prices.calling_ns if signalled else prices.call_ns)
        arrivals_ns.append(round(begin_ns + prices.enqueued_ns))
    length_ns = max(last_ns, 1.0)
    return Forecast(
        progress=max(0.0, 1 - timeline.taken_ns / length_ns),
        sent=len(arrivals_ns),
        dropped=timeline.dropped,
        interrupts=timeline.interrupts,
        length_ns=round(length_ns),
        arrivals_ns=tuple(arrivals_ns),
    )
