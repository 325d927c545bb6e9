"""Run one job in one guest: boot it, run the job, read its frames, end it.

    Job ──► initramfs ──► QEMU: 1 instruction = 1 ns ──debug console──► frames by name
            guest_image     the host's clock is never read

Two runs of the same job give the same frames, to the bit: the guest's clock counts instructions,
a sleeping guest jumps to its next timer, random numbers start from fixed bytes, and there is no
input from outside. All parameters travel in files of constant size. They are never on the kernel's
command line, whose length alone changes results by 3e-4.

Frames of a macro job hold the structs of guest/job_macro.c: numbers of 64 bits, little-endian.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..records.run_result import Records
from ..testbed.processes import RunError
from .guest_image import initramfs, padded_text, padded_to_pages, padding_for
from .kernel_build import Kernel
from .kernel_source import GuestError, TargetMissingError

QEMU = "qemu-system-x86_64"
MEMORY_MIB = 512
WALL_SECONDS_MAX = 600.0
_GRACE_SECONDS = 10.0

# 1 instruction = 1 ns, and a sleeping guest jumps to its next timer. `record` is used for its side
# effect; the recording is discarded: the emulator's main loop then never runs beside the guest.
# Without it the jump is too long by the instructions since the last reading of the clock, if the
# main loop is awake when the guest falls asleep (README.md, "What is guaranteed").
_ICOUNT = "shift=0,sleep=off,rr=record,rrfile=/dev/null"
_LOOK_UP_SECONDS = 0.2
_EXIT_STATUS = 0x10 * 2 + 1  # guest/console.c, EXIT_VALUE, as isa-debug-exit reports it

# thash_entries: a hash table as on a machine with gibibytes of memory; 512 MiB would get 1024
# buckets, and finding one of 10,000 connections would walk lists of ten.
KERNEL_OPTIONS = (
    "console=ttyS0 quiet norandmaps mitigations=off no_timer_check tsc=reliable "
    "tsc_early_khz=1000000 clocksource=tsc thash_entries=65536 panic=-1"
)


@dataclass(frozen=True)
class Job:
    """The work of one guest.

    `exec` runs the program once; frames `stdout` and `clock`. `macro` runs it as the server under
    the load of a trace; guest/job_macro.c lists the frames, and macro_job makes the settings.
    """

    kind: Literal["exec", "macro"]
    program: Path
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, int] = field(default_factory=dict)
    trace: bytes = b""
    modules: tuple[Path, ...] = ()


@dataclass(frozen=True)
class MacroLoad:
    """The load of a macro job: its clients, and the times of the window. Times in ns.

    The load lasts from the begin to the end of warm_up + window + after, and then at most drain_ns
    until its last connection has ended. records_max bounds the connections that it may start.
    """

    trace: bytes
    records_max: int
    warm_up_ns: int
    window_ns: int
    after_ns: int = 0
    drain_ns: int = 5_000_000_000
    timeout_ns: int = 0  # none
    idle: int = 0
    idle_gap_ns: int = 20_000
    delay_ns: int = 50_000
    quick_acks: int = 0
    port: int = 8080

    def settings(self) -> dict[str, int]:
        """Return the numbers that the guest reads."""
        return {
            "warm_up_ns": self.warm_up_ns,
            "window_ns": self.window_ns,
            "load_ns": self.warm_up_ns + self.window_ns + self.after_ns,
            "drain_ns": self.drain_ns,
            "timeout_ns": self.timeout_ns,
            "idle": self.idle,
            "idle_gap_ns": self.idle_gap_ns,
            "delay_ns": self.delay_ns,
            "quick_acks": self.quick_acks,
            "port": self.port,
            "records_max": self.records_max,
            "connections_max": self.idle + self.records_max,
        }


def macro_job(
    server: Path, arguments: tuple[str, ...], load: MacroLoad, modules: tuple[Path, ...]
) -> Job:
    """Return the job that runs *server* under *load*.

    *arguments* must make the server listen on 10.213.0.1 and the load's port, and map its
    counters to COUNTERS_PATH.
    """
    return Job("macro", server, arguments, load.settings(), load.trace, modules)


COUNTERS_PATH = "/tmp/counters"
SERVER_ADDRESS = "10.213.0.1"


@dataclass(frozen=True)
class GuestOutput:
    """The frames of a guest by name, and the host's time for the run."""

    frames: Mapping[str, bytes]
    wall_s: float

    def text(self, name: str) -> str:
        """Return the text of a frame."""
        return self.frames[name].decode()


def image_of(job: Job, init: Path) -> bytes:
    """Return the initramfs of *job*, with *init* as its first program."""
    files = {
        "init": (init.read_bytes(), 0o755),
        "program": (job.program.read_bytes(), 0o755),
        "job": (padded_text(job.kind + "\n"), 0o644),
        "settings": (
            padded_text("".join(f"{name} {value}\n" for name, value in job.settings.items())),
            0o644,
        ),
        "arguments": (padded_text(_argument_lines(job.arguments)), 0o644),
    }
    for number, module in enumerate(job.modules):
        files[f"modules/{number}-{module.name}"] = (module.read_bytes(), 0o644)
    trace = padded_to_pages(job.trace)
    files["trace"] = (trace, 0o644)
    files["padding"] = (bytes(padding_for(len(trace))), 0o644)
    return initramfs(files)


def _argument_lines(arguments: tuple[str, ...]) -> str:
    for argument in arguments:
        if not argument or "\n" in argument:
            raise ValueError(f"an argument must be one line of text, got {argument!r}")
    return "".join(argument + "\n" for argument in arguments)


def qemu_command(kernel: Kernel, folder: Path) -> list[str]:
    """Return the command line of the emulator; it reads and writes files of *folder* only."""
    return [
        QEMU, "-M", "pc,hpet=off", "-cpu", "qemu64", "-accel", "tcg,thread=single",
        "-icount", _ICOUNT, "-m", f"{MEMORY_MIB}M", "-seed", "1",
        "-rtc", "base=2000-01-01,clock=vm", "-nodefaults", "-no-user-config",
        "-display", "none", "-no-reboot",
        "-chardev", f"file,id=serial,path={folder / 'serial'}", "-serial", "chardev:serial",
        "-chardev", f"file,id=console,path={folder / 'console'}",
        "-device", "isa-debugcon,iobase=0xe9,chardev=console",
        "-device", "isa-debug-exit,iobase=0xf4,iosize=4",
        "-kernel", str(kernel.image), "-initrd", str(folder / "initramfs"),
        "-append", KERNEL_OPTIONS,
    ]  # fmt: skip


def run_guest(
    job: Job,
    *,
    kernel: Kernel,
    init: Path,
    cpu: int | None = None,
    wall_s_max: float = WALL_SECONDS_MAX,
    stopping: threading.Event | None = None,
    more_options: tuple[str, ...] = (),
) -> GuestOutput:
    """Return the output of a guest that runs *job*.

    Parameters
    ----------
    cpu
        The host's CPU that all threads of the emulator share; None: any.
    wall_s_max
        Seconds of the host after which the emulator is ended.
    stopping
        Ends the emulator soon after any thread sets it.
    more_options
        Further options of QEMU, such as those that load a plugin.

    Raises
    ------
    TargetMissingError
        If QEMU is not installed.
    GuestError
        If the job failed, or the guest ended early or took too long.
    """
    check_emulator()
    with tempfile.TemporaryDirectory(prefix="dispatchsim-guest-") as name:
        folder = Path(name)
        (folder / "initramfs").write_bytes(image_of(job, init))
        command = [*_placing(cpu), *qemu_command(kernel, folder), *more_options]
        begin_s = time.monotonic()
        status, said = _run(command, wall_s_max, stopping or threading.Event())
        wall_s = time.monotonic() - begin_s
        console = _content(folder / "console")
        last_words = said or _content(folder / "serial").decode(errors="replace")
    if status is None:
        raise GuestError(f"the guest did not end within {wall_s_max:.0f} s{_quoted(last_words)}")
    return GuestOutput(_checked_frames(console, status, last_words), wall_s)


def check_emulator() -> None:
    """Raise `TargetMissingError` if QEMU is not installed."""
    if shutil.which(QEMU) is None:
        raise TargetMissingError(
            f"{QEMU} is not installed, but the emulated target needs it: "
            "apt-get install qemu-system-x86"
        )


def _placing(cpu: int | None) -> list[str]:
    """Return the command that pins the emulator's threads and ends it with its parent.

    It uses programs: code between fork and exec would not be safe beside other threads.
    """
    placing = [] if cpu is None else ["taskset", "--cpu-list", str(cpu)]
    if shutil.which("setpriv") is not None:
        placing += ["setpriv", "--pdeathsig", "KILL"]
    return placing


def _run(
    command: list[str], wall_s_max: float, stopping: threading.Event
) -> tuple[int | None, str]:
    """Return the exit status of *command*, None if it took too long, and its standard error."""
    deadline_s = time.monotonic() + wall_s_max
    process = None
    # An interrupt during the emulator's start would leak the process: it is blocked until then.
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                _, errors = process.communicate(timeout=_LOOK_UP_SECONDS)
                return process.returncode, errors.decode(errors="replace").strip()
            if stopping.is_set():
                raise GuestError("the guest was stopped")
            if time.monotonic() > deadline_s:
                return None, ""
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        # Also after an interrupt by the user: the emulator has a session of its own.
        if process is not None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the emulator if it still runs: with its own session, no other signal reaches it."""
    if process.poll() is None:
        process.kill()
        process.wait(_GRACE_SECONDS)
    assert process.stderr is not None
    process.stderr.close()


def _checked_frames(console: bytes, status: int, last_words: str) -> dict[str, bytes]:
    """Return the frames of a guest whose job succeeded."""
    frames = parse_frames(console)
    if status != _EXIT_STATUS or "end" not in frames:
        raise GuestError(f"the guest ended early, with status {status}{_quoted(last_words)}")
    if frames["end"] != b"0":
        error = frames.get("error", b"").decode(errors="replace")
        raise GuestError(f"the job failed{_quoted(error)}")
    return frames


def parse_frames(console: bytes) -> dict[str, bytes]:
    r"""Return the complete frames of a debug console, by name.

    >>> parse_frames(b"stdout 3\nabc\nend 1\n0\nrec")
    {'stdout': b'abc', 'end': b'0'}
    """
    frames = {}
    at = 0
    while (header_end := console.find(b"\n", at)) >= 0:
        name, _, length = console[at:header_end].decode(errors="replace").partition(" ")
        if not length.isdecimal():
            raise GuestError(f"the guest printed {name[:40]!r} where a frame was to begin")
        begin = header_end + 1
        at = begin + int(length) + 1
        if at > len(console):
            break  # ended in the middle of a frame
        frames[name] = console[begin : at - 1]
    return frames


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _quoted(text: str) -> str:
    """Return the last line of *text* as the end of a sentence."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else ""


Frames = Mapping[str, bytes]

# struct wire_status of wire/wire.h
STATUS_FIELDS = (
    "now_ns", "idle_ns", "n_interrupts", "n_polls", "n_packets_to_server",
    "n_packets_from_server", "n_syn_retries", "n_request_retries", "n_lost", "n_manual",
    "n_connected", "n_manual_replies", "n_manual_gone", "playing", "n_started", "n_finished",
    "n_replied", "n_timeout", "n_refused", "n_reset", "n_replies", "n_open_max",
)  # fmt: skip
# struct usage of guest/job_macro.c
USAGE_FIELDS = ("run_ns", "n_switches_voluntary", "n_switches_involuntary")
TIMES_FIELDS = ("begin_ns", "window_begin_ns", "window_end_ns")
# struct wire_record of wire/wire.h
RECORD_FIELDS = ("intended_ns", "started_ns", "connected_ns", "done_ns", "status")


@dataclass(frozen=True)
class MacroFrames:
    """The frames of a macro job."""

    counters_before: dict[str, int]
    counters_after: dict[str, int]
    wire_before: dict[str, int]
    wire_after: dict[str, int]
    wire_end: dict[str, int]
    usage_before: dict[str, int]
    usage_after: dict[str, int]
    times: dict[str, int]
    records: Records


def macro_frames(frames: Frames, counters: Sequence[str]) -> MacroFrames:
    """Return the content of *frames*; *counters* are the names of the server's counters.

    Raises
    ------
    RunError
        If a frame is missing or of another size.
    """

    def numbers(name: str) -> dict[str, int]:
        fields = _fields(name, counters)
        values = _rows(frames, name, len(fields))[0]
        return dict(zip(fields, values.tolist(), strict=True))

    table = _rows(frames, "records", len(RECORD_FIELDS))
    return MacroFrames(
        counters_before=numbers("counters_before"),
        counters_after=numbers("counters_after"),
        wire_before=numbers("wire_before"),
        wire_after=numbers("wire_after"),
        wire_end=numbers("wire_end"),
        usage_before=numbers("usage_before"),
        usage_after=numbers("usage_after"),
        times=numbers("times"),
        records=Records(*table.T),
    )


def first_difference(one: Frames, two: Frames, counters: Sequence[str]) -> str:
    r"""Return the first field in which two runs differ, with both values; empty if in none.

    >>> frames = {"times": bytes(16) + b"\x07" + bytes(7)}
    >>> first_difference(frames, {"times": bytes(24)}, ())
    'times.window_end_ns: 7, then 0'
    """
    for name in dict.fromkeys([*one, *two]):
        first, second = one.get(name, b""), two.get(name, b"")
        if first == second:
            continue
        fields = _fields(name, counters)
        if len(first) != len(second) or not fields or len(first) % (8 * len(fields)):
            return f"{name}: {len(first)} bytes, then {len(second)}"
        a, b = (np.frombuffer(content, "<i8") for content in (first, second))
        at = int(np.flatnonzero(a != b)[0])
        row, column = divmod(at, len(fields))
        where = f"{name}[{row}]" if name == "records" else name
        return f"{where}.{fields[column]}: {a[at]}, then {b[at]}"
    return ""


def _fields(name: str, counters: Sequence[str]) -> Sequence[str]:
    """Return the names of the numbers in a row of the frame *name*."""
    rows = {"times": TIMES_FIELDS, "records": RECORD_FIELDS}
    starts = {"counters_": counters, "wire_": STATUS_FIELDS, "usage_": USAGE_FIELDS}
    by_start = [fields for start, fields in starts.items() if name.startswith(start)]
    return rows.get(name) or (by_start[0] if by_start else ())


def _rows(frames: Frames, name: str, n_columns: int) -> NDArray[np.int64]:
    """Return the rows of a frame."""
    content = frames.get(name, b"")
    if name not in frames or len(content) % (8 * n_columns) or not (content or name == "records"):
        raise RunError(
            f"the guest's frame {name} must hold rows of {8 * n_columns} bytes, got {len(content)}"
        )
    return np.frombuffer(content, "<i8").reshape(-1, n_columns).astype(np.int64)
