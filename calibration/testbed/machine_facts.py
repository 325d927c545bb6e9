"""The facts of a machine that are needed to judge its measurements, without private data.

No host names, user names or paths: a raw result may be published.
"""

from __future__ import annotations

import datetime
import gzip
import os
import platform
import re
import resource
import subprocess
from pathlib import Path
from typing import NamedTuple

_CPU_FOLDER = Path("/sys/devices/system/cpu")
_KERNEL_LIMITS = (
    "net/core/netdev_max_backlog",
    "net/core/netdev_budget",
    "kernel/sched_autogroup_enabled",
)

Fact = str | int | bool | None | dict[str, str]


class Cpu(NamedTuple):
    """The description of a CPU by its machine; empty texts for unknown facts.

    Attributes
    ----------
    vendor:
        `AuthenticAMD`, or the code of the implementer.
    family, model:
        Numbers. An AMD family is one to three generations of cores, Intel's 6 nearly all.
    name:
        Name; hypervisors often hide the model in it: `AMD EPYC`.
    """

    vendor: str
    family: str
    model: str
    name: str

    def __str__(self) -> str:
        """Return the name and the numbers, for messages."""
        named = (("family", self.family), ("model", self.model))
        numbers = [f"{key} {number}" for key, number in named if number]
        return ", ".join([self.name or "unknown", *numbers])


def cpu() -> Cpu:
    """Return the first CPU of `/proc/cpuinfo`; on ARM its implementer and part."""
    fields = _cpuinfo()
    return Cpu(
        fields.get("vendor_id", fields.get("CPU implementer", "")),
        fields.get("cpu family", fields.get("CPU architecture", "")),
        fields.get("model", fields.get("CPU part", "")),
        fields.get("model name", ""),
    )


def machine_facts() -> dict[str, Fact]:
    """Return the facts of this machine, in reading order."""
    fields = _cpuinfo()
    return {
        "format": "dispatchsim-machine/1",
        "id": machine_id(),
        "date": now_text(),
        "cpu_model": fields.get("model name", platform.machine()),
        "cpu_family": fields.get("cpu family", ""),
        "cpu_vendor": cpu().vendor,
        "cpu_model_number": cpu().model,
        "cpu_count": os.cpu_count() or 1,
        "caches": cache_sizes(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "hypervisor": "hypervisor" in fields.get("flags", "").split(),
        "kernel": platform.release(),
        "timer_hz": timer_hz(),
        "clocksource": _text(
            Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        ),
        "mitigations": mitigations(),
        "kernel_limits": {
            name.replace("/", "."): _text(Path("/proc/sys", name)) for name in _KERNEL_LIMITS
        },
        "fd_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "gcc": version_of("gcc"),
        "python": platform.python_version(),
    }


SAME_MACHINE = ("id", "cpu_model", "kernel")
"""The facts that all runs of a folder share: another kernel counts as another machine."""


def machine_id() -> str:
    """Return a short name of the kind of machine, such as `epyc-family26-model2-2cpu-linux-6.18`.

    Hypervisors hide the model in a CPU's name, although calls on one model take twice as long as on
    another of the same name. The id then includes the model's number.
    """
    fields = _cpuinfo()
    model = fields.get("model name", platform.machine())
    noise = r"\(.*?\)|@.*|\b(amd|intel|arm|cpu|processor|core|gold|silver|platinum|\d+-core)\b"
    words = re.findall(r"[a-z0-9]+", re.sub(noise, " ", model.lower()))
    name = "-".join(words[:2]) or platform.machine()
    family = f"-family{fields['cpu family']}" if "cpu family" in fields else ""
    if "model" in fields and not re.search(r"\d", name):
        family += f"-model{fields['model']}"
    version = ".".join(platform.release().split(".")[:2])
    system = platform.system().lower()
    return f"{name}{family}-{os.cpu_count() or 1}cpu-{system}-{version}"


def cache_sizes(folder: Path = _CPU_FOLDER / "cpu0/cache") -> dict[str, str]:
    """Return the caches of CPU 0: {"L1 data": "48K", ...}."""
    sizes = {}
    for index in sorted(folder.glob("index*")):
        kind = _text(index / "type").lower()
        name = f"L{_text(index / 'level')}" + ("" if kind == "unified" else f" {kind}")
        sizes[name] = _text(index / "size")
    return sizes


def mitigations(folder: Path = _CPU_FOLDER / "vulnerabilities") -> dict[str, str]:
    """Return the kernel's report on each vulnerability; mitigations change system call costs."""
    return {path.name: _text(path) for path in sorted(folder.glob("*"))}


def timer_hz() -> int | None:
    """Return the kernel's timer frequency if its configuration can be read."""
    config = ""
    try:
        config = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    except OSError:
        config = _text(Path("/boot", f"config-{platform.release()}"))
    found = re.search(r"^CONFIG_HZ=(\d+)$", config, re.MULTILINE)
    return int(found[1]) if found else None


def version_of(program: str) -> str:
    """Return the first line of `PROGRAM --version`, or an empty string."""
    try:
        finished = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return next(iter(finished.stdout.splitlines()), "")


def now_text() -> str:
    """Return the date of a record."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _cpuinfo() -> dict[str, str]:
    """Return the fields of the first CPU in `/proc/cpuinfo`."""
    first = _text(Path("/proc/cpuinfo")).split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _text(path: Path) -> str:
    """Return the text of a file without surrounding blanks, or an empty string."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
