"""Scenes of CPU scheduling: turns, wake-ups, softirqs and their thread, timers."""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Iterator

from ...calibration.rules.asked import Value
from ...models.catalogue import MECHANISMS
from ...sim.state.kernel_settings import KernelSettings
from ...sim.state.kinds import NONE, activity, count
from ...sim.state.mechanism import Program, spend
from ...sim.state.settings import FloodSettings
from ...sim.state.units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS
from ...sim.state.world import Cpu, Worker, World
from ...sim.wire.retransmission import goes_off_ns
from .bench import Bench, NullObserver, Scenes

SCENES = Scenes()
scene = SCENES.scene
_SOON_NS = 300 * MICROSECOND_NS

# ---- turns ----


def _computes(world: World, worker: Worker) -> Iterator[int]:
    while True:
        yield from spend(worker, activity.USER, MILLISECOND_NS)


_COMPUTER = Program(_computes, MECHANISMS["epoll_level"])


class _Turns(NullObserver):
    """Observer of the turns of threads: steps of one without another thread in between."""

    def __init__(self) -> None:
        self.lengths_ns: dict[int, list[int]] = {}
        self._thread = NONE
        self._begin_ns = 0

    def step_ends(self, world: World, cpu: Cpu) -> None:
        if cpu.running != self._thread:
            self._end(cpu.step_begin_ns)
            self._thread, self._begin_ns = cpu.running, cpu.step_begin_ns

    def _end(self, end_ns: int) -> None:
        if self._thread != NONE:
            self.lengths_ns.setdefault(self._thread, []).append(end_ns - self._begin_ns)


def _compete(nice: int) -> tuple[World, dict[int, list[int]]]:
    """Let a server's thread and a process of that nice value compute; return their turns."""
    turns = _Turns()
    bench = Bench(
        program=_COMPUTER, busy_processes=1, busy_nice=nice, observe=turns, seconds=2, clients=1
    )
    bench.run()
    return bench.world, turns.lengths_ns


def _ticks_of_turn(nice: int, number: int) -> Value:
    """Return the median turn in ticks, of the thread or (-1) of the process."""
    world, lengths_ns = _compete(nice)
    thread = world.others[NONE].number if number == NONE else number
    return round(statistics.median_high(lengths_ns[thread]) / world.kernel.tick_ns)


scene("turn_of_equals")(lambda: _ticks_of_turn(0, 0))
scene("turn_of_nicest")(lambda: _ticks_of_turn(19, NONE))


@scene("share_of_nice")
def _share_of_nice() -> Value:
    ledger_ns = _compete(5)[0].cpus[0].ledger_ns
    server_ns, nice_ns = ledger_ns[activity.USER], ledger_ns[activity.OTHER]
    return 5 * round(20 * nice_ns / (server_ns + nice_ns))


class _Delays(NullObserver):
    """Observer of the delay from each given time until thread 0 has the CPU."""

    def __init__(self, at_ns: list[int]) -> None:
        self.delays_ns: list[int] = []
        self._left = at_ns

    def step_ends(self, world: World, cpu: Cpu) -> None:
        if cpu.running == 0 and self._left and cpu.step_begin_ns >= self._left[0]:
            self.delays_ns.append(cpu.step_begin_ns - self._left.pop(0))


@scene("wakes_beside_busy")
def _wakes_beside_busy() -> Value:
    at_ns = [21 * MILLISECOND_NS * i for i in range(1, 26)]
    delays = _Delays(list(at_ns))
    Bench(clients=len(at_ns), at_ns=at_ns, busy_processes=1, observe=delays, seconds=1).run()
    return sorted(delays.delays_ns)[len(at_ns) // 4] < _SOON_NS


# ---- softirqs ----


class _ByInterrupts(NullObserver):
    """Observer of the packets that interrupts handled before ksoftirqd handled one."""

    def __init__(self) -> None:
        self.n_before_thread = NONE

    def step_ends(self, world: World, cpu: Cpu) -> None:
        is_thread = cpu.running == world.others[0].number
        if is_thread and self.n_before_thread == NONE:
            self.n_before_thread = world.counts[count.PACKETS]


_BURST_NS = 10 * MILLISECOND_NS


def _burst(n: int, *, wakes: bool = False) -> tuple[World, int]:
    """Let n datagrams come at once, with a connection if it *wakes* the server.

    Return the world, and the packets that the interrupt handled before ksoftirqd did.
    """
    seen = _ByInterrupts()
    at_ns = _BURST_NS if wakes else SECOND_NS
    flood = FloodSettings(_BURST_NS, burst=n, is_poisson=False, until_ns=_BURST_NS + 1)
    bench = Bench(clients=1, at_ns=at_ns, packet_ns=1000, observe=seen, flood=flood, seconds=1)
    bench.run()
    return bench.world, seen.n_before_thread


scene("softirq_in_one_go")(lambda: _burst(1000)[1])
# A woken thread ends a softirq after its first round.
scene("softirq_weight", "softirq_poll")(lambda: _burst(1000, wakes=True)[1])
scene("softirq_rounds")(lambda: _burst(1000)[1] // _burst(1000, wakes=True)[1])


@scene("softirq_queue")
def _softirq_queue() -> Value:
    world, n_at_once = _burst(5000)
    return 5000 - n_at_once - world.counts[count.PACKET_DROPS]


@scene("softirq_queue_overflows")
def _queue_overflows() -> Value:
    return _burst(5000)[0].counts[count.PACKET_DROPS] > 0


@functools.cache
def _flooded() -> tuple[World, int]:
    """Let a packet of 3 us come each 2 us beside a computing process; return as `_burst`."""
    seen = _ByInterrupts()
    flood = FloodSettings(
        200 * MICROSECOND_NS, burst=100, is_poisson=False, until_ns=40 * MILLISECOND_NS
    )
    bench = Bench(
        clients=1,
        at_ns=SECOND_NS,
        packet_ns=3000,
        flood=flood,
        busy_processes=1,
        observe=seen,
        seconds=1,
    )
    bench.run()
    return bench.world, seen.n_before_thread


@scene("ksoftirqd_works")
def _ksoftirqd_works() -> Value:
    return _flooded()[0].cpus[0].ledger_ns[activity.KSOFTIRQD] > 0


@scene("ksoftirqd_and_interrupts")
def _ksoftirqd_and_interrupts() -> Value:
    world, n_before = _flooded()
    return world.counts[count.PACKETS] > n_before


# ---- timers ----


@scene("timer_steps")
def _timer_steps() -> Value:
    tick_ns = KernelSettings().tick_ns
    sent_ns = [8 * MILLISECOND_NS * i for i in range(1, 17)]
    at_ns = [goes_off_ns(now_ns, SECOND_NS, tick_ns) for now_ns in sent_ns]
    instants = sorted({at // MILLISECOND_NS for at in at_ns})
    steps = {later - before for before, later in itertools.pairwise(instants)}
    last_first = all(
        later < before
        for before, later in itertools.pairwise(at_ns)
        if before // MILLISECOND_NS == later // MILLISECOND_NS
    )
    return [max(steps), last_first]
