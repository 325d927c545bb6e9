"""Addresses and names of functions: of the kernel, of the server program, of modules.

    System.map, nm server ──► one ascending table ──► plugin (addresses and kinds)
                                      └──────────────► call tree (names)

A module has no place in the table: its address is known only in the guest. The plugin reports the
addresses of the functions it saw there, and `module_names` finds the only base at which they are
functions of the module.
"""

from __future__ import annotations

import subprocess
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..kernel_source import TargetError

PLAIN, CALL, INTERRUPT, GAP = "-", "S", "I", "."
_KINDS = {
    "entry_SYSCALL_64": "E",
    "irq_entries_start": "V",
    "spurious_entries_start": "V",
    "error_entry": "F",
    "restore_regs_and_return_to_kernel": "R",
    "__switch_to_asm": "W",
    "do_idle": "L",
    "schedule_idle": "N",
    "__x64_sys_epoll_ctl": "U",
    "ep_ptable_queue_proc": "D",
    "ep_remove": "D",
}
"""The functions that the plugin needs (plugin/context.h, enum kind), Linux 6.1 on x86-64."""
# Labels inside a function; a block of instructions rarely begins at them.
_LABELS = ("entry_SYSCALL_64_safe_stack", "entry_SYSCALL_64_after_hwframe")
_KERNEL_BEGIN = 0xFFFFFFFF80000000
_TEXT_ENDS = ("_etext", "_einittext", "_end")
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Function:
    """A function of the table: from its address to that of the next one."""

    address: int
    name: str
    kind: str = PLAIN


def kind_of(name: str) -> str:
    """Return the plugin's kind of the kernel's function *name*.

    >>> kind_of("__x64_sys_read"), kind_of("asm_exc_page_fault"), kind_of("vfs_read")
    ('S', 'I', '-')
    """
    if name in _KINDS:
        return _KINDS[name]
    if name.startswith("__x64_sys_"):
        return CALL
    return INTERRUPT if name.startswith(("asm_exc_", "asm_sysvec_")) else PLAIN


def kernel_functions(system_map: str) -> list[Function]:
    """Return the functions in the text of a System.map, in ascending order.

    Raises
    ------
    TargetError
        If a function that the profiler needs is missing.
    """
    names: dict[int, list[tuple[str, str]]] = {}
    ends = []
    for line in system_map.splitlines():
        digits, letter, name = line.split()
        address = int(digits, 16)
        if name in _TEXT_ENDS:
            ends.append(Function(address, "", GAP))
        elif letter in "tTwW" and address >= _KERNEL_BEGIN and name not in _LABELS:
            names.setdefault(address, []).append((letter, name))
    functions = []
    for address, candidates in names.items():
        name = min(candidates, key=_preference)[1]
        functions.append(Function(address, name, kind_of(name)))
    missing = sorted(set(_KINDS) - {function.name for function in functions})
    if missing:
        raise TargetError(f"the kernel has no function {missing[0]}: it must be Linux 6.1")
    starts = {function.address for function in functions}
    return sorted(
        [*functions, *(end for end in ends if end.address not in starts)],
        key=lambda function: function.address,
    )


def _preference(candidate: tuple[str, str]) -> tuple[bool, bool, bool, int, str]:
    """Return the rank of a name of an address: known to the plugin, then global, then short."""
    letter, name = candidate
    return kind_of(name) == PLAIN, letter not in "TW", name.startswith("__"), len(name), name


def address_of(system_map: str, name: str) -> int:
    """Return the address of any symbol of a System.map."""
    for line in system_map.splitlines():
        digits, _, symbol = line.split()
        if symbol == name:
            return int(digits, 16)
    raise TargetError(f"the kernel has no symbol {name}")


def object_functions(path: Path) -> dict[int, str]:
    """Return the functions of a program or module, by address or offset in its text."""
    finished = subprocess.run(
        ["nm", "--defined-only", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    if finished.returncode != 0:
        raise TargetError(f"nm does not read {path.name}: {finished.stderr.strip()}")
    names: dict[int, list[tuple[str, str]]] = {}
    for line in finished.stdout.splitlines():
        digits, letter, name = line.split(maxsplit=2)
        if letter in "tTwW":
            names.setdefault(int(digits, 16), []).append((letter, name))
    return {address: min(names[address], key=_preference)[1] for address in sorted(names)}


def function_table(kernel: Sequence[Function], program: Mapping[int, str]) -> list[Function]:
    """Return all functions of a guest in one table, programs below the kernel."""
    user = [Function(address, name) for address, name in sorted(program.items())]
    return [*user, *kernel]


def table_text(table: Iterable[Function]) -> str:
    """Return *table* in the plugin's format (plugin/symbol_table.h)."""
    return "".join(f"{function.address:x} {function.kind}\n" for function in table)


def module_names(addresses: Sequence[int], module: str, functions: Mapping[int, str]) -> list[str]:
    """Return names for the *addresses* of functions called in a module, as `name [module]`.

    *functions* are the module's, by offset in its text, which begins on a page. An address between
    them is named after the function that contains it.
    """
    if not addresses or not functions:
        return [f"{address:#x}" for address in addresses]
    bases = Counter(
        address - offset
        for address in set(addresses)
        for offset in functions
        if (address - offset) % _PAGE_BYTES == 0
    )
    base = max(bases, key=lambda base: (bases[base], base), default=0)
    offsets = sorted(functions)
    names = []
    for address in addresses:
        index = bisect_right(offsets, address - base) - 1
        inside = base and index >= 0
        names.append(f"{functions[offsets[index]]} [{module}]" if inside else f"{address:#x}")
    return names
