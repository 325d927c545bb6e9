"""What is seen of a server's processes and its CPU while somebody else asks it.

    snapshot ──── the load ──── snapshot ──► CPU time of each process, share of the CPU, noise

A run that others disturbed is judged by `calibration.noise`, as those of our own servers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..measure.macro import IDLE_SECONDS_MAX
from ..records.measured_runs import Noise
from ..records.noise import delay_share
from ..testbed.processes import Child, CpuTicks, RunError, ScheduleTimes, cpu_ticks, schedule_times
from .server_process import BlackBox, n_unaccepted

_LOOK_S = 0.01


@dataclass(frozen=True)
class Snapshot:
    """The clocks at one moment; *client* is what asks, None once it has ended.

    *is_one_thread* says whether the server was a single thread then: some begin one for each
    connection.
    """

    at_ns: int
    server: dict[int, ScheduleTimes]
    client: ScheduleTimes | None
    ticks: CpuTicks
    is_one_thread: bool


@dataclass(frozen=True)
class Watched:
    """What passed between two snapshots."""

    before: Snapshot
    after: Snapshot

    @property
    def length_ns(self) -> int:
        """How long it took."""
        return self.after.at_ns - self.before.at_ns

    @property
    def process_ns(self) -> int:
        """CPU time of the server's processes."""
        return sum(self._run_ns())

    @property
    def busy_share(self) -> float:
        """Share of the server's CPU that was neither idle nor taken by the hypervisor."""
        idle_ns = self.after.ticks.idle_ns - self.before.ticks.idle_ns
        busy_ns = self.length_ns - idle_ns - self._steal_ns
        return min(1.0, max(0.0, busy_ns / self.length_ns))

    @property
    def has_ended(self) -> bool:
        """Whether no process of the server was left."""
        return not self.after.server

    @property
    def lost_processes(self) -> bool:
        """Whether some of its processes ended meanwhile."""
        return bool(set(self.before.server) - set(self.after.server))

    @property
    def is_one_thread(self) -> bool:
        """Whether the server was a single thread at both ends."""
        return self.before.is_one_thread and self.after.is_one_thread

    def noise(
        self,
        ratios: tuple[float, float],
        calibrations: tuple[float, float],
        *,
        is_pinned: bool,
        is_one_thread: bool,
    ) -> Noise:
        """Return what others took: *calibrations* in ns, and their ratios to the quiet ones.

        Of a server that is not *is_pinned* nobody knows which CPU to look at. If it is not
        *is_one_thread* its threads wait for each other: that time does not say that others were
        there.
        """
        before, after = self.before, self.after
        pairs = [
            (late, before.server[pid]) for pid, late in after.server.items() if pid in before.server
        ]
        delay_ns = sum(late.delay_ns - early.delay_ns for late, early in pairs)
        user_ns = sum(late.user_ns - early.user_ns for late, early in pairs)
        foreign_ns = after.ticks.user_ns - before.ticks.user_ns - user_ns
        client_ns = 0
        if before.client is not None and after.client is not None:
            client_ns = after.client.delay_ns - before.client.delay_ns
        return Noise(
            server_delay_share=delay_share(delay_ns, self.process_ns) if is_one_thread else 0,
            client_delay_share=client_ns / self.length_ns,
            steal_share=self._steal_ns / self.length_ns,
            foreign_share=max(foreign_ns, 0) / self.length_ns if is_pinned else 0,
            spin_ratio=ratios[0],
            memory_ratio=ratios[1],
            spin_ns=calibrations[0],
            memory_ns=calibrations[1],
        )

    @property
    def _steal_ns(self) -> int:
        return self.after.ticks.steal_ns - self.before.ticks.steal_ns

    def _run_ns(self) -> list[int]:
        """Return the CPU time of each process; one that came later began at 0."""
        began = {pid: times.run_ns for pid, times in self.before.server.items()}
        return [times.run_ns - began.get(pid, 0) for pid, times in self.after.server.items()]


def snapshot(box: BlackBox, cpu: int, client_pid: int | None = None) -> Snapshot:
    """Return the clocks of *box*, of *cpu*, on which it runs, and of the client."""
    return Snapshot(
        at_ns=time.monotonic_ns(),
        server=box.times(),
        client=None if client_pid is None else schedule_times(client_pid),
        ticks=cpu_ticks(cpu),
        is_one_thread=box.has_one_thread,
    )


def await_idle(box: BlackBox, holder: Child) -> None:
    """Wait until all idle connections are established, and the server has accepted them.

    Raises
    ------
    RunError
        If it has not after a minute.
    """
    try:
        holder.read_line(timeout_s=IDLE_SECONDS_MAX)
    except RunError as error:
        raise RunError(f"{box.name} does not take the idle connections: {error}") from error
    deadline = time.monotonic() + IDLE_SECONDS_MAX
    while n_waiting := sum(n_unaccepted(pid, box.port) for pid in box.processes()[:1]):
        if time.monotonic() > deadline:
            raise RunError(f"{box.name} has not accepted {n_waiting} idle connections in a minute")
        time.sleep(_LOOK_S)
