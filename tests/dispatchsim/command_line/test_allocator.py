"""Freed memory is kept for the next run."""

import ctypes
import platform
import subprocess
import sys

import pytest

from dispatchsim.command_line import door as allocator

_ROUNDS = """
import resource, sys
import numpy as np
from dispatchsim.command_line.door import keep_freed_memory

if sys.argv[1] == "kept":
    keep_freed_memory()
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    columns = [np.ones(100_000, np.int64) for _ in range(50)]
    del columns
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults)
"""


def _faults(how: str) -> int:
    command = [sys.executable, "-P", "-c", _ROUNDS, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_the_third_round_of_columns_is_given_the_pages_of_the_second() -> None:
    assert _faults("default") > 1_000
    assert _faults("kept") < 100


def test_a_c_library_without_mallopt_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class NoMallopt:
        def __getattr__(self, name: str) -> None:
            asked.append(name)
            raise AttributeError(name)

    monkeypatch.setattr(ctypes, "CDLL", lambda _: NoMallopt())
    allocator.keep_freed_memory()
    assert asked == ["mallopt"]
