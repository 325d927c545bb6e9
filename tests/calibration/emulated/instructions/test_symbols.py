"""Names of functions: which the profiler must know, and where a module was loaded."""

from __future__ import annotations

import pytest

from dispatchsim.calibration.emulated.instructions.symbols import (
    Function,
    address_of,
    function_table,
    kernel_functions,
    kind_of,
    module_names,
    table_text,
)
from dispatchsim.calibration.emulated.kernel_source import TargetError

_KNOWN = {
    "__switch_to_asm": "W", "do_idle": "L", "schedule_idle": "N", "irq_entries_start": "V",
    "spurious_entries_start": "V", "restore_regs_and_return_to_kernel": "R", "error_entry": "F",
    "ep_ptable_queue_proc": "D", "ep_remove": "D", "__x64_sys_epoll_ctl": "U",
}  # fmt: skip
_MAP = "\n".join(
    [
        "0000000000000000 D fixed_percpu_data",
        "ffffffff81000000 T _stext",
        "ffffffff81000000 T startup",
        *(f"{0xFFFFFFFF81000100 + 16 * i:x} t {name}" for i, name in enumerate(_KNOWN)),
        "ffffffff81001000 t vfs_read.cold",
        "ffffffff81001100 T __x64_sys_read",
        "ffffffff81001200 t __pfx_alias",
        "ffffffff81001200 T alias",
        "ffffffff81002000 T entry_SYSCALL_64",
        "ffffffff81002040 T entry_SYSCALL_64_after_hwframe",
        "ffffffff81003000 T _etext",
        "ffffffff81a00000 D init_stack",
        "ffffffff81b00000 B _end",
    ]
)


def test_the_functions_of_a_kernel_ascend_and_end_with_the_text() -> None:
    functions = kernel_functions(_MAP)
    assert functions == sorted(functions, key=lambda function: function.address)
    by_name = {function.name: function for function in functions}
    assert by_name["__x64_sys_read"] == Function(0xFFFFFFFF81001100, "__x64_sys_read", "S")
    assert {name: by_name[name].kind for name in _KNOWN} == _KNOWN
    assert [function.address for function in functions if function.kind == "."] == [
        0xFFFFFFFF81003000,
        0xFFFFFFFF81B00000,
    ]


def test_of_several_names_the_one_that_matters_is_taken() -> None:
    names = {function.address: function.name for function in kernel_functions(_MAP)}
    assert names[0xFFFFFFFF81001200] == "alias"
    assert 0xFFFFFFFF81002040 not in names, "a label inside a function is no function"


def test_a_kernel_without_what_the_profiler_must_know_is_refused() -> None:
    lines = [line for line in _MAP.splitlines() if "do_idle" not in line]
    with pytest.raises(TargetError, match="no function do_idle"):
        kernel_functions("\n".join(lines))


def test_every_exception_begins_an_interrupt() -> None:
    assert {kind_of(name) for name in ("asm_exc_int3", "asm_sysvec_irq_work")} == {"I"}
    # It is jumped to from a vector, which has begun the interrupt.
    assert kind_of("asm_common_interrupt") == "-"


def test_a_symbol_has_an_address_or_is_missed_by_name() -> None:
    assert address_of(_MAP, "init_stack") == 0xFFFFFFFF81A00000
    with pytest.raises(TargetError, match="no symbol nothing"):
        address_of(_MAP, "nothing")


def test_programs_lie_below_the_kernel() -> None:
    table = function_table([Function(0xFFFFFFFF81000000, "kernel")], {0x401000: "main"})
    assert table_text(table) == "401000 -\nffffffff81000000 -\n"


def test_a_module_is_found_by_the_functions_that_were_called() -> None:
    functions = {0x10: "open", 0x80: "poll", 0x230: "xmit", 0x1010: "ioctl"}
    base = 0xFFFFFFFFA0003000
    addresses = [base + 0x230, base + 0x80, base + 0x1010]
    assert module_names(addresses, "wire", functions) == [
        "xmit [wire]",
        "poll [wire]",
        "ioctl [wire]",
    ]


def test_an_address_in_no_module_stays_a_number() -> None:
    assert module_names([0x1234], "wire", {}) == ["0x1234"]
    assert module_names([], "wire", {0: "open"}) == []
