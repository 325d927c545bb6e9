"""Reasons for which a test may be skipped on a continuous-integration machine."""

from __future__ import annotations

import fnmatch
from pathlib import Path

ALLOWED_SKIPS = Path(__file__).with_name("allowed_skips.txt")


def allowed_patterns() -> list[str]:
    """Return the patterns of reasons, without the comments between them."""
    lines = ALLOWED_SKIPS.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def is_allowed(reason: str) -> bool:
    """Return whether *reason* matches one of the patterns as a whole."""
    return any(fnmatch.fnmatchcase(reason, pattern) for pattern in allowed_patterns())
