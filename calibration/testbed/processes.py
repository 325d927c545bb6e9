"""Start, pin, watch and end the processes of one run; leave other processes alone.

    start ──► own session ──► CPU, nice -20, autogroup -20 ──► `ready` ──► read counters ──► end

With nice alone the scheduler still gives each session (autogroup) an equal share of a CPU, so
another session could take half of the server's; hence the write to `/proc/PID/autogroup`.
"""

from __future__ import annotations

import contextlib
import operator
import os
import selectors
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

PRIORITY_HIGHEST = -20
_CPU_CLOCK_PRECISE = 2  # CPUCLOCK_SCHED of linux/posix-timers.h: the scheduler's own clock
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_GRACE_SECONDS = 2.0


class RunError(RuntimeError):
    """A process of a run failed. The message names the process and the failure."""


class ScheduleTimes(NamedTuple):
    """The scheduler's times of a process: on a CPU, and waiting for one."""

    run_ns: int
    delay_ns: int
    user_ns: int

    def since(self, earlier: ScheduleTimes) -> ScheduleTimes:
        """Return what was added since *earlier*."""
        return ScheduleTimes(*map(operator.sub, self, earlier))


class CpuTicks(NamedTuple):
    """Time of one CPU by state, in ns but with the resolution of a `/proc/stat` tick.

    n_calls counts function call interrupts from other CPUs ("CAL" of `/proc/interrupts`), by which
    steered packets arrive.
    """

    user_ns: int
    idle_ns: int
    softirq_ns: int
    steal_ns: int
    n_calls: int = 0

    def since(self, earlier: CpuTicks) -> CpuTicks:
        """Return what was added since *earlier*."""
        return CpuTicks(*map(operator.sub, self, earlier))


class Child:
    """One child process in its own session, ended at the end of the `with` block."""

    def __init__(
        self, name: str, command: list[str], *, cpu: int | tuple[int, ...], priority: int
    ) -> None:
        self.name = name
        self._text = b""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self.pid = self._process.pid
        place(self.pid, cpu=cpu, priority=priority)

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    def read_line(self, timeout_s: float) -> str:
        """Return the next line of standard output, or raise `RunError` after *timeout_s*."""
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(_pipe(self._process.stdout), selectors.EVENT_READ)
            while b"\n" not in self._text:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not selector.select(left_s):
                    raise RunError(f"{self.name} printed nothing within {timeout_s:.1f} s")
                chunk = os.read(_pipe(self._process.stdout).fileno(), 65536)
                if not chunk:
                    raise RunError(f"{self.name} ended early: {self._last_words()}")
                self._text += chunk
        line, _, self._text = self._text.partition(b"\n")
        return line.decode(errors="replace")

    def read_number(self, word: str, timeout_s: float) -> int:
        """Return the number in the next line, which is *word* and a number.

        Raises
        ------
        RunError
            If the line is different, or none comes in time.
        """
        line = self.read_line(timeout_s)
        words = line.split()
        if len(words) != 2 or words[0] != word or not words[1].isdigit():
            raise RunError(f'{self.name} must print "{word} NUMBER", got "{line}"')
        return int(words[1])

    def write_line(self) -> None:
        """Send an empty line to a process that waits for one; raise `RunError` if it has ended."""
        try:
            os.write(_pipe(self._process.stdin).fileno(), b"\n")
        except BrokenPipeError as error:
            raise RunError(f"{self.name} ended early: {self._last_words()}") from error

    def read_all(self, timeout_s: float) -> list[str]:
        """Return all lines of a process that ends by itself, without error, within *timeout_s*."""
        try:
            text, errors = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise RunError(f"{self.name} did not end within {timeout_s:.1f} s") from error
        if self._process.returncode != 0:
            said = errors.decode(errors="replace").strip().splitlines() or ["no message"]
            raise RunError(
                f"{self.name} ended with exit status {self._process.returncode}: {said[-1]}"
            )
        return (self._text + text).decode(errors="replace").splitlines()

    def is_running(self) -> bool:
        """Return whether the process is still running."""
        return self._process.poll() is None

    def end(self) -> None:
        """Terminate the process, kill it after a grace period, and close its pipes."""
        with contextlib.suppress(OSError):
            _pipe(self._process.stdin).close()
        if self.is_running():
            self._process.terminate()
            try:
                self._process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            _pipe(stream).close()

    def _last_words(self) -> str:
        """Return the last line on standard error of a process that has closed its output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        if self.is_running():
            return "it closed its output but still runs"
        lines = _pipe(self._process.stderr).read().decode(errors="replace").strip().splitlines()
        return f"exit status {self._process.returncode}, {lines[-1] if lines else 'no message'}"


def place(pid: int, *, cpu: int | tuple[int, ...], priority: int) -> bool:
    """Pin a process, set its nice value and its session's; return whether all of it worked."""
    try:
        os.sched_setaffinity(pid, {cpu} if isinstance(cpu, int) else set(cpu))
        os.setpriority(os.PRIO_PROCESS, pid, priority)
        Path(f"/proc/{pid}/autogroup").write_text(str(priority))
    except ProcessLookupError:
        return False  # it has already ended; its output shows why
    except OSError:
        return False
    return True


@contextlib.contextmanager
def punctual(cpu: int) -> Iterator[None]:
    """Let the harness wake on time on *cpu*, even beside a process that spins at nice -20.

    Children started meanwhile do not inherit this priority. Without permission nothing changes.
    """
    cpus_before = os.sched_getaffinity(0)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {cpu})
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            os.sched_setaffinity(0, cpus_before)


def schedule_times(pid: int) -> ScheduleTimes:
    """Return the CPU time of a process until now, and its time in the run queue."""
    # The run time of schedstat is updated only at ticks and switches (up to 4 ms late at 250 Hz).
    # The process's CPU clock is exact; its number is computed from the pid.
    clock = (~pid << 3) | _CPU_CLOCK_PRECISE
    try:
        run_ns = time.clock_gettime_ns(clock)
        fields = Path(f"/proc/{pid}/schedstat").read_text().split()
        # The program's name is in parentheses and may contain any character, even spaces.
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError as error:
        raise RunError(f"process {pid} ended during the run") from error
    return ScheduleTimes(
        run_ns=run_ns,
        delay_ns=int(fields[1]),
        user_ns=int(state[11]) * _TICK_NS,
    )


def cpu_ticks(cpu: int) -> CpuTicks:
    """Return the time of *cpu* by state from `/proc/stat`; empty if there is no file."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name == f"cpu{cpu}":
            ticks = [int(field) for field in fields]
            return CpuTicks(
                user_ns=(ticks[0] + ticks[1]) * _TICK_NS,
                idle_ns=(ticks[3] + ticks[4]) * _TICK_NS,
                softirq_ns=ticks[6] * _TICK_NS,
                steal_ns=ticks[7] * _TICK_NS,
                n_calls=_calls_to(cpu),
            )
    raise RunError(f"/proc/stat has no line for CPU {cpu}")


def _calls_to(cpu: int) -> int:
    header, *lines = Path("/proc/interrupts").read_text().splitlines()
    column = header.split().index(f"CPU{cpu}") + 1
    calls = [line.split()[column] for line in lines if line.lstrip().startswith("CAL:")]
    return int(calls[0]) if calls else 0


def read_counters(path: Path, names: list[str]) -> dict[str, int]:
    """Return the server's counters by name from the file that it maps."""
    content = path.read_bytes()
    if len(content) < 8 * len(names):
        raise RunError(f"the counters file has {len(content)} bytes, {8 * len(names)} expected")
    return dict(zip(names, struct.unpack_from(f"<{len(names)}Q", content), strict=True))


def sleep_until(monotonic_ns: int) -> None:
    """Sleep until the monotonic clock reads *monotonic_ns*."""
    while (left_ns := monotonic_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / 1e9)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    """Return *stream*, which is a pipe by construction."""
    assert stream is not None
    return stream
