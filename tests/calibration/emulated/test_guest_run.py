"""How a guest's run is watched: programs that only look like QEMU stand in for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dispatchsim.calibration.emulated import guest_run
from dispatchsim.calibration.emulated.guest_run import Job, parse_frames, run_guest
from dispatchsim.calibration.emulated.kernel_build import Kernel
from dispatchsim.calibration.emulated.kernel_source import GuestError, TargetMissingError

CONSOLE = """
for argument; do case "$argument" in file,id=console,path=*) console=${argument##*path=};;
file,id=serial,path=*) serial=${argument##*path=};; esac; done
"""


class FakeQemu:
    """A shell script in QEMU's place, and a job for it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "qemu"
        program = folder / "program"
        program.write_bytes(b"")
        self.job = Job("exec", program)
        self.kernel = Kernel("kernel-0", program, program, program, folder)

    def becomes(self, script: str) -> None:
        self.path.write_text(f"#!/bin/sh\n{CONSOLE}\n{script}\n")
        self.path.chmod(0o755)

    def run(self, **options: float) -> guest_run.GuestOutput:
        wall_s_max = options.get("wall_s_max", 60.0)
        return run_guest(self.job, kernel=self.kernel, init=self.job.program, wall_s_max=wall_s_max)


@pytest.fixture
def qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeQemu:
    fake = FakeQemu(tmp_path)
    monkeypatch.setattr(guest_run, "QEMU", str(fake.path))
    return fake


def test_frames_are_returned_by_name(qemu: FakeQemu) -> None:
    qemu.becomes(r'printf "stdout 3\na\nb\nclock 0\n\nend 1\n0\n" > $console; exit 33')
    assert qemu.run().frames == {"stdout": b"a\nb", "clock": b"", "end": b"0"}


def test_a_failed_job_says_what_its_program_said(qemu: FakeQemu) -> None:
    qemu.becomes(r'printf "error 12\nprogram: bad\nend 1\n2\n" > $console; exit 33')
    with pytest.raises(GuestError, match=r"^the job failed: program: bad$"):
        qemu.run()


def test_a_panic_is_quoted_from_the_serial_line(qemu: FakeQemu) -> None:
    qemu.becomes(r'printf "ok\nKernel panic\n" > $serial; exit 0')
    with pytest.raises(GuestError, match=r"^the guest ended early, with status 0: Kernel panic$"):
        qemu.run()


def test_an_option_qemu_refuses_is_quoted(qemu: FakeQemu) -> None:
    qemu.becomes("echo qemu: no such device >&2; exit 1")
    with pytest.raises(GuestError, match=r"with status 1: qemu: no such device$"):
        qemu.run()


def test_a_guest_that_ends_within_a_frame_has_not_done_its_job(qemu: FakeQemu) -> None:
    qemu.becomes(r'printf "end 1\n" > $console; exit 33')
    with pytest.raises(GuestError, match="ended early"):
        qemu.run()


def test_a_guest_that_does_not_end_is_ended(qemu: FakeQemu, tmp_path: Path) -> None:
    qemu.becomes(f"echo $$ > {tmp_path}/pid; exec sleep 60")
    with pytest.raises(GuestError, match=r"^the guest did not end within 1 s$"):
        qemu.run(wall_s_max=1.0)
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_an_interrupt_ends_the_guest(qemu: FakeQemu, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    qemu.becomes(f"echo $$ > {pid_file}; exec sleep 60")

    def interrupt() -> None:
        wait_for(pid_file)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        qemu.run()
    thread.join()
    assert not is_running(int(pid_file.read_text()))


def test_a_guest_does_not_outlive_a_harness_that_is_killed(qemu: FakeQemu, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    qemu.becomes(f"echo $$ > {pid_file}; exec sleep 60")
    script = f"""
from pathlib import Path
from dispatchsim.calibration.emulated import guest_run
from dispatchsim.calibration.emulated.kernel_build import Kernel
guest_run.QEMU = {str(qemu.path)!r}
program = Path({str(qemu.job.program)!r})
kernel = Kernel("kernel-0", program, program, program, program)
guest_run.run_guest(guest_run.Job("exec", program), kernel=kernel, init=program)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # what it leaves behind goes there
    with subprocess.Popen([sys.executable, "-c", script], env=environment) as harness:
        wait_for(pid_file)
        harness.kill()
    deadline_s = time.monotonic() + 20
    while is_running(int(pid_file.read_text())) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not is_running(int(pid_file.read_text()))


def test_a_missing_emulator_is_named_with_its_package(
    qemu: FakeQemu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_run, "QEMU", "no-such-emulator")
    with pytest.raises(TargetMissingError, match=r"apt-get install qemu-system-x86$"):
        qemu.run()


def test_text_that_is_no_frame_is_an_error() -> None:
    with pytest.raises(GuestError, match="printed 'oops' where a frame"):
        parse_frames(b"oops\n")


def is_running(pid: int) -> bool:
    """Tell whether a process is there and not only waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(path: Path) -> None:
    deadline_s = time.monotonic() + 60
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline_s, f"{path} did not come"
        time.sleep(0.01)
