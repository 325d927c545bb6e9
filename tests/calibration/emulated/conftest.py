"""The emulated target for tests that boot it: there, built at the first use, or skipped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.run_cache import keeping_kernels

from dispatchsim.calibration.emulated.guest_run import check_emulator
from dispatchsim.calibration.emulated.kernel_build import Kernel, check_tools, kernel
from dispatchsim.calibration.emulated.kernel_source import TargetMissingError, find_source

_CHECKS: tuple[Callable[[], object], ...] = (check_emulator, find_source, check_tools)


KERNEL_BUILD_SECONDS_MAX = 3600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests that may be the first to need the kernel the time to build it."""
    for item in items:
        if isinstance(item, pytest.Function) and "target_kernel" in item.fixturenames:
            item.add_marker(pytest.mark.timeout(KERNEL_BUILD_SECONDS_MAX))


@pytest.fixture(scope="session")
def target_kernel() -> Kernel:
    """Return the kernel from the cache, or built, which takes minutes.

    Nothing is built for an emulator that is not there, and all that is missing is named at once.
    """
    missing = [packages for check in _CHECKS if (packages := _missing_packages(check))]
    if missing:
        pytest.skip(f"the emulated target is not there: apt-get install {' '.join(missing)}")
    with keeping_kernels():
        return kernel()


def _missing_packages(check: Callable[[], object]) -> str:
    """Return what the sentence of a failed *check* ends with; empty if it did not fail."""
    try:
        check()
    except TargetMissingError as missing:
        return str(missing).rpartition("apt-get install ")[2]
    return ""
