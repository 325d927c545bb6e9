"""The emulated target for tests that boot it: they are skipped until `make kernel` has built it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dispatchsim.calibration.emulated.guest_run import check_emulator
from dispatchsim.calibration.emulated.kernel_build import Kernel, built_kernel, check_tools
from dispatchsim.calibration.emulated.kernel_source import TargetMissingError, find_source

_CHECKS: tuple[Callable[[], object], ...] = (check_emulator, find_source, check_tools)


@pytest.fixture(scope="session")
def target_kernel() -> Kernel:
    """Return the kernel from the cache: a build takes longer than half of the suite.

    All packages that are missing are named at once.
    """
    missing = [packages for check in _CHECKS if (packages := _missing_packages(check))]
    if missing:
        pytest.skip(f"the emulated target is not there: apt-get install {' '.join(missing)}")
    built = built_kernel()
    if built is None:
        pytest.skip("the emulated target's kernel has not been built: make kernel")
    return built


def _missing_packages(check: Callable[[], object]) -> str:
    """Return what the sentence of a failed *check* ends with; empty if it did not fail."""
    try:
        check()
    except TargetMissingError as missing:
        return str(missing).rpartition("apt-get install ")[2]
    return ""
