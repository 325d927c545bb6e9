"""A server that is not ours as a black box: started, found, watched, and always cleaned up.

    keeper ──► command ──► its processes ──► listens? ──► CPU time ──► TERM, KILL ──► all gone
      in the testbed's namespace, on the server's CPU

    snapshot ──── the load ──── snapshot ──► CPU time of each process, share of the CPU, noise

The keeper (keeper/keeper.c) adopts all processes that the server starts, including daemons. It ends
them at its end, or when this process ends. `calibration.records.noise` judges disturbed runs, as
for our own servers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, NamedTuple

from ..measure.macro import IDLE_SECONDS_MAX
from ..records.measured_runs import Noise
from ..records.noise import delay_share
from ..testbed.c_build import Programs
from ..testbed.processes import Child, CpuTicks, RunError, ScheduleTimes, cpu_ticks, schedule_times
from ..testbed.testbed import Testbed

START_SECONDS_MAX = 20.0
_LISTENS = "0A"  # TCP_LISTEN in /proc/net/tcp
_LOOK_S = 0.02
_END_SECONDS_MAX = 10.0
_LINE_SHOWN = 160


class BlackBox:
    """A server that listens: its port and all its processes.

    Parameters
    ----------
    name:
        The name of its program, for messages.
    port:
        The port on which it listens.
    top:
        Its first process; with *is_kept*, the keeper above its first process.
    output:
        Its output; None for a server that ran before.
    """

    def __init__(
        self, name: str, port: int, top: int, *, is_kept: bool, output: IO[bytes] | None = None
    ) -> None:
        self.name, self.port = name, port
        self._top, self._is_kept, self._output = top, is_kept, output

    def processes(self) -> list[int]:
        """Return its current processes."""
        found = descendants(self._top)
        return found if self._is_kept else [self._top, *found]

    @property
    def is_pinned(self) -> bool:
        """Whether all of it runs on the server's CPU; a server that ran before may run anywhere."""
        return self._is_kept

    def times(self) -> dict[int, ScheduleTimes]:
        """Return the scheduler's times of each of its processes up to now."""
        found = {}
        for pid in self.processes():
            with contextlib.suppress(RunError):  # it has ended since it was listed
                found[pid] = schedule_times(pid)
        return found

    @property
    def has_one_thread(self) -> bool:
        """Whether it consists of one process with one thread."""
        pids = self.processes()
        try:
            return len(pids) == 1 and len(os.listdir(f"/proc/{pids[0]}/task")) == 1
        except OSError:
            return False

    def last_words(self) -> str:
        """Return the last lines that it printed."""
        if self._output is None:
            return "its output is unknown, as it was not started here"
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        return "; ".join(lines[-2:])[-_LINE_SHOWN:] if lines else "it printed nothing"


@contextlib.contextmanager
def started(
    command: Sequence[str],
    port: int,
    *,
    testbed: Testbed,
    programs: Programs,
    environment: Mapping[str, str] | None = None,
) -> Iterator[BlackBox]:
    """Start *command* on the server's side and yield it when it listens on *port*.

    At the end of the block all its processes are gone.

    Raises
    ------
    RunError
        If the program is missing, the port is taken, or it does not listen within 20 s.
    """
    name = Path(command[0]).name
    if shutil.which(command[0]) is None:
        raise RunError(f"there is no program {command[0]}: install it, or give its path")
    keeper = (programs.path("keeper"), "--cpu", str(testbed.server_cpu), "--first", "--")
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            testbed.on_server(*keeper, *command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        box = BlackBox(name, port, process.pid, is_kept=True, output=output)
        try:
            _await_listening(box, process)
            yield box
        finally:
            _end(box, process)


def _end(box: BlackBox, process: subprocess.Popen[bytes]) -> None:
    """Make the keeper end the server; if it does not, end both."""
    process.terminate()
    try:
        process.wait(_END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        for pid in (*box.processes(), process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def attached(pid: int, port: int) -> Iterator[BlackBox]:
    """Yield the server that runs as *pid* and listens on *port*; it keeps running afterwards.

    Raises
    ------
    RunError
        If there is no such process, or it does not listen there, or it started this command.
    """
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        raise RunError(f"--pid: there is no process {pid}") from None
    if not os.access(f"/proc/{pid}/fd", os.R_OK):
        raise RunError(
            f"--pid: process {pid} ({name}) is of another user: only its owner or root may use it"
        )
    box = BlackBox(name, port, pid, is_kept=False)
    if os.getpid() in (pid, *box.processes()):
        raise RunError(f"--pid: process {pid} ({name}) has started this command, and is no server")
    if not listens(box):
        raise RunError(f"--port: process {pid} ({name}) does not listen on port {port}")
    yield box


def listens(box: BlackBox) -> bool:
    """Return whether a process of the server itself listens on its port."""
    return any(box.port in own_ports(pid) for pid in box.processes())


def _await_listening(box: BlackBox, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not listens(box):
        if process.poll() is not None:
            raise RunError(f"{box.name} ended before it listened: {box.last_words()}")
        if time.monotonic() > deadline:
            taken = box.port in listening_ports(process.pid)
            why = "another process has that port" if taken else box.last_words()
            raise RunError(
                f"{box.name} does not listen on port {box.port} after "
                f"{START_SECONDS_MAX:.0f} s: {why}"
            )
        time.sleep(_LOOK_S)


def own_ports(pid: int) -> set[int]:
    """Return the TCP ports of the listening sockets that *pid* itself has open."""
    inodes = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    inodes.add(target.removeprefix("socket:[").removesuffix("]"))
    return {listener.port for listener in _listeners(pid) if listener.inode in inodes}


def ports_here() -> set[int]:
    """Return the TCP ports with a listening socket in our own network namespace."""
    return listening_ports(os.getpid())


def testbed_of(pid: int, address: str, testbed: Testbed) -> Testbed:
    """Return *testbed* with clients in the network of *pid*, which listens on *address* there.

    Raises
    ------
    RunError
        If that is another network and it cannot be entered.
    """
    beside = replace(testbed, address=address)
    try:
        if os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            return beside
    except OSError:
        return beside  # without permission: the next steps report it
    if os.geteuid() != 0 or shutil.which("nsenter") is None:
        raise RunError(
            f"--pid: process {pid} is in a network namespace of its own, which only root can "
            "enter, with the program nsenter"
        )
    return replace(beside, client_prefix=("nsenter", "-t", str(pid), "-n"))


def listening_ports(pid: int) -> set[int]:
    """Return the TCP ports with a listening socket in the network namespace of *pid*."""
    return {listener.port for listener in _listeners(pid)}


def n_unaccepted(pid: int, port: int) -> int:
    """Return how many connections to *port* wait to be accepted in the namespace of *pid*."""
    return sum(listener.n_queued for listener in _listeners(pid) if listener.port == port)


class _Listener(NamedTuple):
    port: int
    inode: str
    n_queued: int


def _listeners(pid: int) -> Iterator[_Listener]:
    """Yield each listening socket in the network namespace of *pid*."""
    for family in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS:
                    # A listener's receive queue counts connections (inet_diag, tcp(7)).
                    port, queue = (fields[i].rpartition(":")[2] for i in (1, 4))
                    yield _Listener(int(port, 16), fields[9], int(queue, 16))


def descendants(pid: int) -> list[int]:
    """Return the processes below *pid*, parents before their children."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The program's name is in parentheses and may hold any character.
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = list(children.get(pid, ()))
    for parent in found:
        found += children.get(parent, ())
    return found


@dataclass(frozen=True)
class Snapshot:
    """The clocks at one moment; *client* is the load generator, None once it has ended.

    *is_one_thread*: whether the server was a single thread then. Some servers begin a thread for
    each connection.
    """

    at_ns: int
    server: dict[int, ScheduleTimes]
    client: ScheduleTimes | None
    ticks: CpuTicks
    is_one_thread: bool


@dataclass(frozen=True)
class Watched:
    """The changes between two snapshots."""

    before: Snapshot
    after: Snapshot

    @property
    def length_ns(self) -> int:
        """The time between them."""
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
        """Whether some of its processes ended in between."""
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
        """Return the disturbance: *calibrations* in ns, and *ratios* to the quiet ones.

        A server that is not *is_pinned* has no CPU of its own to watch. In a server that is not
        *is_one_thread*, threads wait for each other, so waiting times do not show other
        processes.
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
        """Return the CPU time of each process; a process that began later started at 0."""
        began = {pid: times.run_ns for pid, times in self.before.server.items()}
        return [times.run_ns - began.get(pid, 0) for pid, times in self.after.server.items()]


def snapshot(box: BlackBox, cpu: int, client_pid: int | None = None) -> Snapshot:
    """Return the clocks of *box*, of its CPU *cpu*, and of the client."""
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
        If it has not accepted them after a minute.
    """
    try:
        holder.read_line(timeout_s=IDLE_SECONDS_MAX)
    except RunError as error:
        raise RunError(f"{box.name} does not accept the idle connections: {error}") from error
    deadline = time.monotonic() + IDLE_SECONDS_MAX
    while n_waiting := sum(n_unaccepted(pid, box.port) for pid in box.processes()[:1]):
        if time.monotonic() > deadline:
            raise RunError(f"{box.name} has not accepted {n_waiting} idle connections in a minute")
        time.sleep(_LOOK_S)
