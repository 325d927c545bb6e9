"""The settings of the suite itself: which skips a continuous-integration machine takes."""

from __future__ import annotations

import pytest
from tests.allowed_skips import is_allowed


@pytest.mark.parametrize(
    ("reason", "allowed"),
    [
        ("server: cannot open io_uring for 1024 descriptors: Operation not permitted", True),
        ("the emulated target is not there: apt-get install qemu-system-x86 bc", True),
        ("gcc is not installed, so the C programs cannot be built", False),
        ("strace is not installed", False),
        ("5 times the window is behind the load", False),
        ("# It can be tested elsewhere only.", False),
        ("", False),
    ],
)
def test_only_reasons_on_the_list_are_taken(reason: str, *, allowed: bool) -> None:
    assert is_allowed(reason) is allowed
