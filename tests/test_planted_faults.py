"""The planted faults of `make faults` fit the code: each text to be replaced is there once."""

from __future__ import annotations

from tests.planted_faults import misplaced, read_faults


def test_each_fault_has_its_place() -> None:
    assert [line for fault in read_faults() for line in misplaced(fault)] == []


def test_each_fault_names_tests_or_says_why_no_run_can_show_it() -> None:
    faults = read_faults()
    assert [fault.name for fault in faults if bool(fault.tests) == bool(fault.equivalent)] == []
    assert len({fault.name for fault in faults}) == len(faults)
