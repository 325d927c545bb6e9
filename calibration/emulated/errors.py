"""What can go wrong with the emulated target, each in one sentence that says what to do."""

from __future__ import annotations


class TargetError(RuntimeError):
    """The emulated target could not be built or run; the message is one sentence."""


class TargetMissingError(TargetError):
    """Something that the target is made from is not installed; the message names the package."""


class GuestError(TargetError):
    """A guest did not do its job; the message says how it ended and what it said last."""
