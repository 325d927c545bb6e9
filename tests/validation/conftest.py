"""The helpers of these tests are imported by their path from the root of the repository."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))

from tests.validation.synthetic_runs import toy_profile

from dispatchsim.calibration.profiles.cost_profile import Profile


@pytest.fixture(scope="session")
def profile() -> Profile:
    """Return costs like those of a real machine."""
    return toy_profile()
