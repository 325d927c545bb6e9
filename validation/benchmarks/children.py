"""What processes of their own measure, and print as one number.

python -P -m dispatchsim.validation.benchmarks.children FUNCTION ARGUMENT...
"""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...calibration.profiles.cost_profile import default_profile
from ...models.built_in import built_in_programs
from ...sim.state.mechanism import Program
from . import contestants as c
from .scenarios import EPOLL, Case, Scenario, scenario_of

_KIB = 1024
PORTABLE_FLAGS = ("-g", "-march=x86-64-v3")
"""Valgrind has no AVX-512: C by hand is compiled without."""


def peak_memory(engine: str, idle: str, n: str) -> float:
    """Simulate *n* connections beside *idle* ones; return the most memory of this process."""
    # Not touched beforehand: most of what is there of an idle connection is never looked at.
    scenario = scenario_of(default_profile(), Case(idle=int(idle)), int(n))
    c.run(engine, scenario, touched=False)
    # Not ru_maxrss: a process inherits that of its parent.
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return float(value.split()[0]) * _KIB
    raise RuntimeError("/proc/self/status has no VmHWM")


def compilation(engine: str, what: str) -> float:
    """Return the CPU seconds from a prepared world to the end of a run of two connections.

    Parameters
    ----------
    engine:
        The name of the contestant.
    what:
        "one": of `epoll_level`; "all": of every built-in program. Programs that the folded engine
        does not fit are left out.
    """
    took_s = 0.0
    for _, program, world in built_in_programs():
        if what == "one" and (program.mechanism.name != EPOLL or program.calls):
            continue
        began_s = _cpu_seconds()
        try:
            _engine(engine, program, world).run()
        except ValueError:
            if engine != c.FOLDED or what == "one":
                raise
        took_s += _cpu_seconds() - began_s
    return took_s


def _engine(name: str, program: Program, world: Any) -> Any:
    return c.c_module().CRun(program, world, duration_ns=1_000, folded=name == c.FOLDED)


def _cpu_seconds() -> float:
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


SWITCH = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void stop(void) { CALLGRIND_DUMP_STATS; CALLGRIND_STOP_INSTRUMENTATION; }
"""
"""Tells callgrind when to count."""


def counted(name: str, folder: str, *lengths: str) -> float:
    """Run a contestant under callgrind with each number of connections, 64 users.

    Callgrind leaves a file for each length; the connections of the longest run are returned.
    """
    source, library = Path(folder, "switch.c"), Path(folder, "switch.so")
    source.write_text(SWITCH)
    command = ["gcc", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    switch = ctypes.CDLL(str(library))

    def count(function: Callable[[], Any]) -> float:
        switch.start()
        began_s = time.thread_time()
        function()
        switch.stop()
        return time.thread_time() - began_s

    for length in lengths:
        scenario: Scenario = scenario_of(default_profile(), Case(), int(length))
        c.run(name, scenario, count, *PORTABLE_FLAGS)
    return float(lengths[-1])


CHILDREN: dict[str, Callable[..., float]] = {
    "peak_memory": peak_memory,
    "compilation": compilation,
    "counted": counted,
}
"""The functions by name."""

if __name__ == "__main__":
    print(CHILDREN[sys.argv[1]](*sys.argv[2:]))
