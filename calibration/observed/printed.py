"""Reading what tools print: lines that must be there, numbers with units, sentences when not."""

from __future__ import annotations

import math
import re

from ..records.measured_runs import DataError

NUMBER = r"(-?[0-9.]+(?:e[+-]?[0-9]+)?|-?nan|-?inf)"
_TIMES_NS = {"us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
_LINE_SHOWN = 60
_SHOWN = 40
NUMBER_MAX = 1e12
"""Whatever a tool counts is less; what is above it would only overflow later."""
TIME_NS_MAX = 100 * 24 * 3600e9
_TIME_MAX = "a hundred days"


class Printed:
    """The text that a tool printed, and where it came from.

    Parameters
    ----------
    text:
        All of it.
    where:
        What begins the message of an error: a file's name.
    tool:
        Whose output it is taken for.
    """

    def __init__(self, text: str, where: str, tool: str) -> None:
        self.text, self.where, self.tool = text, where, tool

    def find(self, pattern: str, what: str) -> re.Match[str]:
        """Return the first match of *pattern*, which stands for the line of *what*.

        Raises
        ------
        DataError
            If there is none: the output was cut, or is of a version that is not known.
        """
        match = self.look(pattern)
        if match is None:
            last = self.text.strip().rsplit("\n", 1)[-1][:_LINE_SHOWN]
            raise DataError(
                f"{self.where}: no {what} in what is taken for the output of {self.tool}: it was "
                f'cut, or is of an unknown version (its last line is "{last}")'
            )
        return match

    def look(self, pattern: str) -> re.Match[str] | None:
        """Return the first match of *pattern* at the begin of a line, if there is one."""
        return re.search(pattern, self.text, re.MULTILINE)

    def numbers(self, pattern: str, what: str) -> tuple[float, ...]:
        """Return the numbers in the line of *what*; see `find`.

        Raises
        ------
        DataError
            If it is not there, or a number is none.
        """
        return tuple(self.number(group, what) for group in self.find(pattern, what).groups())

    def number(self, text: str, what: str) -> float:
        """Return *text* as a number from 0 to NUMBER_MAX.

        Raises
        ------
        DataError
            If it is none, with the line of *what*.
        """
        return number_of(text, f"{self.where}: {what}")

    def time_ns(self, text: str, what: str) -> float:
        """Return a time such as "4.05ms" in ns.

        Raises
        ------
        DataError
            If it is none.
        """
        match = re.fullmatch(NUMBER + "(us|ms|s|m|h)", text)
        if match is None:
            raise DataError(f'{self.where}: {what} must be a time such as 4.05ms, got "{text}"')
        value_ns = self.number(match[1], what) * _TIMES_NS[match[2]]
        if value_ns > TIME_NS_MAX:
            raise DataError(f"{self.where}: {what} must be at most {_TIME_MAX}, got {text}")
        return value_ns


def number_of(text: str, what: str) -> float:
    """Return *text* as a number from 0 to NUMBER_MAX; *what* begins the message of an error.

    Raises
    ------
    DataError
        If it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= NUMBER_MAX:
        raise DataError(f'{what} must be a number from 0 to {NUMBER_MAX:g}, got "{text[:_SHOWN]}"')
    return value


def share_name(percent: float) -> str:
    """Return the name of a quantile.

    >>> share_name(99.9), share_name(50.0), share_name(100.0)
    ('0.999', '0.5', '1')
    """
    return f"{percent / 100:.7f}".rstrip("0").rstrip(".")
