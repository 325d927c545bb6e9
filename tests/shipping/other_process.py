"""Runs of a C engine in a process of its own, which may be of another processor."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dispatchsim.sim.engine.c.layout import Memory
from dispatchsim.sim.engine.c.shapes import Column, Record, Records, Reference

_OVER = 0

DRIVER = Path(__file__).with_name("driver.c")


class OtherProcess:
    """An engine whose runs are those of *command*, which reads a world and prints it."""

    def __init__(self, command: Sequence[str], memory: Memory) -> None:
        self._command, self._memory = command, memory

    def run_begin(self, address: int, warm_up_ns: int) -> int:
        self._address, self._warm_up_ns = address, warm_up_ns
        return 1

    def run_on(self, _: int) -> int:
        """Run to the end at once: where Python's care is wanted, the state of C is lost."""
        regions, pointers = _regions(self._memory), list(_pointers(self._memory))
        numbers = [len(regions), len(pointers), self._warm_up_ns, self._address]
        numbers += [number for region in regions for number in region]
        content = [ctypes.string_at(*region) for region in regions]
        sent = struct.pack(f"<{len(numbers) + len(pointers)}q", *numbers, *pointers)
        ran = subprocess.run(
            self._command, input=sent + b"".join(content), capture_output=True, check=False
        )
        assert ran.returncode == 0, ran.stderr.decode()
        kept = [ctypes.string_at(pointer, 8) for pointer in pointers]
        at = 8
        for address, size in regions:
            ctypes.memmove(address, ran.stdout[at : at + size], size)
            at += size
        assert at == len(ran.stdout)
        for pointer, value in zip(pointers, kept, strict=True):
            ctypes.memmove(pointer, value, 8)
        assert struct.unpack_from("<q", ran.stdout) == (_OVER,)
        return _OVER

    def run_end(self, _: int) -> None:
        """Do nothing: the process has ended."""


def _arrays(memory: Memory) -> list[np.ndarray[Any, Any]]:
    return [*(words for _, _, words in memory._words.values()), *memory._kept.values()]


def _regions(memory: Memory) -> list[tuple[int, int]]:
    """Return address and size of all memory of the world; arrays that overlap are one region."""
    found: list[tuple[int, int]] = []
    for begin, size in sorted((a.ctypes.data, a.nbytes) for a in _arrays(memory) if a.size):
        if found and begin < sum(found[-1]):
            first = found[-1][0]
            found[-1] = first, max(sum(found[-1]), begin + size) - first
        else:
            found.append((begin, size))
    return found


def _pointers(memory: Memory) -> Iterator[int]:
    """Yield the address of every word that holds an address."""
    for _, kind, words in memory._words.values():
        for at, member in _members(kind, 0):
            yield words.ctypes.data + 8 * at
            if isinstance(member, Records):
                listed = memory._kept[id(words), at]
                yield from range(listed.ctypes.data, listed.ctypes.data + listed.nbytes, 8)


def _members(kind: Record, begins: int) -> Iterator[tuple[int, Any]]:
    """Yield place and kind of the members that are addresses, those of inner records, too."""
    places = kind.places()
    for name, member in kind.members:
        at = begins + places[name]
        if isinstance(member, Record):
            yield from _members(member, at)
        elif isinstance(member, Reference | Records | Column):
            yield at, member
