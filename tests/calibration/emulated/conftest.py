"""The emulated target for tests that boot it: there, built at the first use, or skipped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dispatchsim.calibration.emulated.errors import TargetMissingError
from dispatchsim.calibration.emulated.guest_run import check_emulator
from dispatchsim.calibration.emulated.kernel_build import Kernel, check_tools, kernel
from dispatchsim.calibration.emulated.kernel_source import find_source

_CHECKS: tuple[Callable[[], object], ...] = (check_emulator, find_source, check_tools)


@pytest.fixture(scope="session")
def target_kernel() -> Kernel:
    """Return the kernel from the cache, or built, which takes minutes.

    All that is missing is named, and nothing is built for an emulator that is not there.
    """
    missing = [sentence for check in _CHECKS if (sentence := _complaint(check))]
    if missing:
        pytest.skip("; ".join(missing))
    return kernel()


def _complaint(check: Callable[[], object]) -> str:
    """Return which package *check* misses, in one sentence; empty if none."""
    try:
        check()
    except TargetMissingError as missing:
        return str(missing)
    return ""
