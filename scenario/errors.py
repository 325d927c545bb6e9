"""Errors that are the user's to mend: one sentence, exit code 2, no traceback."""

from __future__ import annotations


class UserError(ValueError):
    """Something asked for cannot be done; the message is one sentence for the one who asked."""


class ScenarioError(UserError):
    """A scenario that breaks a rule; the message names file, key, rule and value."""
