"""Errors that the user can correct, and suggestions for misspelt names.

Each mistake is one sentence; the exit code is 2, without a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A request that cannot be met: a sentence for each mistake, one a line.

    >>> UserError("load.rate: is missing", "run.seed: must be at least 0, got -1").mistakes
    ['load.rate: is missing', 'run.seed: must be at least 0, got -1']
    """

    def __str__(self) -> str:
        """Return all mistakes, one a line."""
        return "\n".join(self.mistakes)

    @property
    def mistakes(self) -> list[str]:
        """A sentence for each mistake."""
        return [str(each) for each in self.args]


class ScenarioError(UserError):
    """A scenario that breaks rules; each sentence names file, key, rule and value."""

    @property
    def rules(self) -> list[str]:
        """The mistakes without the file, for callers that changed a value of it."""
        return [mistake.split(": ", 1)[-1] for mistake in self.mistakes]


_LISTED_MAX = 12  # names: a longer list hides the nearest one
_LIKENESS_MIN = 0.7  # names of three letters with one other letter are not near
_BEGINNING_MIN = 3  # letters: fewer begin too many names
_OTHER_WORDS = {"runs": "replications", "cores": "cpus", "processors": "cpus", "output": "plot"}
"""Words of other tools or commands, each with the word that is known instead."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ' (did you mean "...")' for a near miss, and nothing otherwise.

    >>> nearest("epol", ["select", "poll", "epoll_level"])
    ' (did you mean "epoll_level"?)'
    """
    close = closest(name, known)
    return "" if close is None else f' (did you mean "{close}"?)'


def one_of(name: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """Return the rule for the unknown *name*: all *known* names, or the nearest of many.

    Parameters
    ----------
    also:
        Other spellings that are accepted, which a list of all names leaves out.

    >>> one_of("pol", ["poll", "select"])
    'must be one of poll, select (did you mean "poll"?)'
    >>> one_of("n_11", [f"n_1{i}" for i in range(13)])
    'must be one of 13 names (did you mean "n_11"?)'
    """
    names = list(known)
    near = nearest(name, (*names, *also))
    many = near and len(names) > _LISTED_MAX
    return f"must be one of {f'{len(names)} names' if many else ', '.join(names)}{near}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the *known* name nearest to *name*, None if none is near."""
    return next(iter(nearest_names(name, known)), None)


def nearest_names(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Return up to *n* of the *known* names near to *name*, the nearest first.

    >>> nearest_names("mech", ["mechanism", "memory", "workers"])
    ['mechanism']
    >>> nearest_names("poll_pollfd", ["epoll_level", "poll"])[0]
    'poll'
    >>> nearest_names("--runs", ["--cpus", "--replications"])
    ['--replications']
    """
    word = name.lstrip("-")  # hyphens make no two options alike
    other = _OTHER_WORDS.get(word)

    def likeness(known_name: str) -> tuple[float, float]:
        known_name = known_name.lstrip("-")
        is_mixed_up = sorted(known_name) == sorted(word)  # "rnu"
        if is_mixed_up or known_name == other or word.startswith(f"{known_name}_"):
            return 1.0, 1.0
        # People often omit the end of a long name: "epol" is nearer to epoll_level than to poll.
        begin = known_name[: len(word)] if len(word) >= _BEGINNING_MIN else known_name
        whole, beginning = (
            difflib.SequenceMatcher(None, word, candidate).ratio()
            for candidate in (known_name, begin)
        )
        return max(whole, beginning), whole

    close = [(likeness(each), each) for each in known]
    close = [each for each in close if each[0][0] >= _LIKENESS_MIN]
    return [each for _, each in sorted(close, key=lambda pair: pair[0], reverse=True)[:n]]


def unknown_key(name: str, known: Iterable[str]) -> str:
    """Return the error for the unknown key *name*: the nearest key, or all known keys.

    >>> unknown_key("ranges", ["name", "range"]), unknown_key("x", ["name", "range"])
    ('unknown key (did you mean "range"?)', 'no key is called "x" (known keys: name, range)')
    """
    known = list(known)
    if not known:
        return "unknown key"
    if hint := nearest(name, known):
        return f"unknown key{hint}"
    return f'no key is called "{name}" (known keys: {", ".join(known)})'
