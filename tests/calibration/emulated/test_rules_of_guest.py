"""The kernel's rules, asked of a guest that nobody else is in."""

from __future__ import annotations

import pytest

from dispatchsim.calibration.emulated.kernel_build import Kernel
from dispatchsim.calibration.rules.asked import ask_guest, catalogue, guest, kept_answers


@pytest.mark.parametrize("family", ["io_uring", "TCP timers"])
def test_linux_6_1_answers_as_it_did(target_kernel: Kernel, family: str) -> None:
    before = kept_answers("6.1.192")
    found = ask_guest(only=[family])
    assert found == {name: before[name] for name in catalogue() if name in found}
    assert len(found) == sum(rule.family == family for rule in catalogue().values())


def test_the_answers_of_a_guest_bear_the_name_of_its_kernel(target_kernel: Kernel) -> None:
    source = guest()
    assert source.facts["target"] == target_kernel.id
    assert str(source.facts["kernel"]).startswith(source.release)
