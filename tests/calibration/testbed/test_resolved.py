"""What was in force while a run was measured, by the kernel's own words."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from dispatchsim.calibration.testbed.resolved import limits_in_force
from dispatchsim.calibration.testbed.testbed import Testbed

LOOPBACK = Testbed("loopback", "127.0.0.1")


def test_the_backlog_is_what_the_kernel_made_of_it() -> None:
    if shutil.which("ss") is None:
        pytest.skip("no program ss (apt-get install iproute2)")
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    with socket.create_server(("127.0.0.1", 0), backlog=2**30) as listener:
        found = limits_in_force(LOOPBACK, os.getpid(), listener.getsockname()[1])
    assert found["backlog"] == found["somaxconn"] == most


def test_limits_are_those_of_the_process() -> None:
    found = limits_in_force(LOOPBACK, os.getpid(), 1)
    (n_files, _), (n_signals, _) = (
        resource.getrlimit(kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_SIGPENDING)
    )
    unlimited = resource.RLIM_INFINITY
    assert found["server_nofile"] == ("unlimited" if n_files == unlimited else n_files)
    assert found["server_sigpending"] == ("unlimited" if n_signals == unlimited else n_signals)
    cookies = Path("/proc/sys/net/ipv4/tcp_syncookies").read_text()
    assert found["tcp_syncookies"] == int(cookies)


def test_what_is_not_known_is_left_out() -> None:
    found = limits_in_force(LOOPBACK, 2**30, 1)
    assert "backlog" not in found
    assert "server_nofile" not in found


def test_a_program_that_hangs_leaves_out_what_it_would_say(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(command: list[str], *, timeout: float, **_: object) -> NoReturn:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hangs)
    found = limits_in_force(LOOPBACK, os.getpid(), 1)
    assert "backlog" not in found
    assert "server_nofile" in found
