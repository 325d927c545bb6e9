"""The kernel's limits in force while a run is measured, which may differ from those requested.

Sources: ss(8), of a listener Send-Q is its backlog; Documentation/networking/ip-sysctl.rst;
proc_pid_limits(5).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from .testbed import Testbed

_SYSCTLS = ("net/core/somaxconn", "net/ipv4/tcp_max_syn_backlog", "net/ipv4/tcp_syncookies")
_LIMITS = {"Max open files": "server_nofile", "Max pending signals": "server_sigpending"}


def limits_in_force(testbed: Testbed, pid: int, port: int) -> dict[str, int | str]:
    """Return the limits by name of the server *pid* that listens at *port*.

    Unknown limits are omitted. `backlog` is that of the listener, `cpu_khz` the current frequency
    of the server's CPU.
    """
    found = {
        "backlog": _backlog(testbed, port),
        **_sysctls(testbed),
        **_process_limits(Path(f"/proc/{pid}/limits")),
        "cpu_khz": _cpu_khz(testbed.server_cpu),
    }
    return {name: value for name, value in found.items() if value is not None}


def _said(command: list[str]) -> str:
    """Return the output of *command*; empty if it fails or takes more than 20 s."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _backlog(testbed: Testbed, port: int) -> int | None:
    """Return Send-Q of the listener at *port*."""
    for line in _said(testbed.on_server("ss", "-ltnH", f"sport = :{port}")).splitlines():
        words = line.split()
        if len(words) > 3 and words[3].endswith(f":{port}") and words[2].isdigit():
            return int(words[2])
    return None


def _sysctls(testbed: Testbed) -> dict[str, int | str | None]:
    script = "; ".join(f"cat /proc/sys/{name} 2>/dev/null || echo" for name in _SYSCTLS)
    values = _said(testbed.on_server("sh", "-c", script)).splitlines()
    values += [""] * (len(_SYSCTLS) - len(values))
    return {
        name.rpartition("/")[2]: _number(value)
        for name, value in zip(_SYSCTLS, values, strict=False)
    }


def _process_limits(path: Path) -> dict[str, int | str | None]:
    """Return the soft limits in the file *path*; `unlimited` stays a word."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return {
        name: _number(line.removeprefix(title).split()[0])
        for line in lines
        for title, name in _LIMITS.items()
        if line.startswith(title)
    }


def _cpu_khz(cpu: int) -> int | None:
    """Return the frequency of *cpu* from its driver or from /proc/cpuinfo."""
    try:
        return int(Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq").read_text())
    except (OSError, ValueError):
        pass
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        megahertz = [line.partition(":")[2] for line in lines if line.startswith("cpu MHz")]
        return round(float(megahertz[cpu]) * 1000)
    except (OSError, ValueError, IndexError):
        return None


def _number(text: str) -> int | str | None:
    text = text.strip()
    return int(text) if text.isdigit() else text or None
