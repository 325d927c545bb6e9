"""Errors that are the user's to mend, and what a misspelt name was perhaps meant to be.

Each is one sentence, with exit code 2 and no traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something asked for cannot be done; the message is one sentence for the one who asked."""


class ScenarioError(UserError):
    """A scenario that breaks a rule; the message names file, key, rule and value."""


_LIKENESS_MIN = 0.6
_BEGINNING_MIN = 3  # letters: fewer begin too many names


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ' (did you mean "...")' for a near miss, and nothing otherwise.

    >>> nearest("epol", ["select", "poll", "epoll_level"])
    ' (did you mean "epoll_level"?)'
    """

    def likeness(known_name: str) -> tuple[float, float]:
        # Many leave out the end of a long name: "epol" is nearer to epoll_level than to poll.
        begin = known_name[: len(name)] if len(name) >= _BEGINNING_MIN else known_name
        whole, beginning = (
            difflib.SequenceMatcher(None, name, candidate).ratio()
            for candidate in (known_name, begin)
        )
        return max(whole, beginning), whole

    close = max(known, key=likeness, default=None)
    if close is None or likeness(close)[0] < _LIKENESS_MIN:
        return ""
    return f' (did you mean "{close}"?)'


def unknown_key(name: str, known: Iterable[str]) -> str:
    """Return what is wrong with the key *name*: what it was perhaps meant to be, or what there is.

    >>> unknown_key("ranges", ["name", "range"]), unknown_key("x", ["name", "range"])
    ('unknown key (did you mean "range"?)', 'unknown key (known keys: name, range)')
    """
    known = list(known)
    if not known:
        return "unknown key"
    hint = nearest(name, known) or f" (known keys: {', '.join(known)})"
    return f"unknown key{hint}"
