"""The C library's allocator, set for many short runs: freed memory is kept."""

from __future__ import annotations

import contextlib
import ctypes

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_MIB = 1 << 20
_SETTINGS = {_M_MMAP_THRESHOLD: 32 * _MIB, _M_TRIM_THRESHOLD: 1024 * _MIB, _M_TOP_PAD: 64 * _MIB}


def keep_freed_memory() -> None:
    """Tell malloc to give freed memory to the next run, not to the kernel.

    A run has a hundred columns of up to a few megabytes. By default each is mapped and unmapped
    anew: the kernel clears and maps its pages again and again, and the threads of a process wait
    for each other meanwhile. Columns of 32 MiB or more are still mapped, and what they hold of
    connections that are never looked at takes no memory.

    It is of the whole process, so the command line does it and the library does not. Other C
    libraries than glibc have no such settings: they stay as they are. Source: mallopt(3).
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for number, value in _SETTINGS.items():
            mallopt(number, value)
