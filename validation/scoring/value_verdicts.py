"""The error of a forecast value, its text and verdict, and summaries of many errors.

within noise    the forecast lies in the range of the repeats
within 15%      it does not, and its error is at most 15%
missed          neither; tables count all errors up to 15%, including those within noise

A forecast without replies has no response time: its error is NaN, its verdict "missed".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np

from ...sim.files.tables import DASH

_NAN = float("nan")
WITHIN = 0.15
"""The largest error that is small enough."""
ONE_RUN = "one run"
"""The text in place of the noise of a single run."""

Verdict = Literal["within noise", "within 15%", "missed"]


class Judged(NamedTuple):
    """A value's relative error and its verdict.

    `error` is NaN if the forecast has no value; `in_noise` is None if the noise is unknown.
    """

    error: float
    in_noise: bool | None
    verdict: Verdict


def judge(measured: float, forecast: float, noise: tuple[float, float]) -> Judged | None:
    """Return the error and verdict of *forecast*; None if nothing was measured.

    *forecast* is NaN without replies; it is missed then. *noise* is the interval of the repeats;
    NaN for a single run.
    """
    if not measured > 0 or forecast < 0:  # also true for a measured NaN
        return None
    error, (low, high) = forecast / measured - 1, noise
    in_noise = None if math.isnan(low) or math.isnan(high) else bool(low <= forecast <= high)
    near: Verdict = "within 15%" if abs(error) <= WITHIN else "missed"
    return Judged(error, in_noise, "within noise" if in_noise else near)


def worst(errors: list[float]) -> float:
    """Return the relative error that is the largest factor either way.

    >>> worst([0.5, -0.6, 1.2])
    -0.6
    """
    return max(errors, key=factor_of)


def middle_error(errors: Sequence[float]) -> float:
    """Return the relative error of middle size, with the sign of most; sizes compare as factors.

    A forecast of half is as far off as one of twice, and farther than one of 1.5 times.

    >>> [round(middle_error(errors), 6) for errors in ([0.9, -0.5, 0.1], [-0.9, -0.8, 0.1])]
    [0.9, -0.8]
    """
    factor = math.exp(float(np.median([math.log(factor_of(error)) for error in errors])))
    return 1 / factor - 1 if np.median(errors) < 0 else factor - 1


def factor_of(error: float) -> float:
    """Return the factor of a forecast with the relative *error*, at least 1."""
    ratio = 1 + error
    return math.inf if ratio <= 0 else max(ratio, 1 / ratio)


def signed(error: float | None) -> str:
    """Return a relative error with its sign; beyond a factor of two as that factor.

    >>> [signed(error) for error in (0.012, -0.4, 2.1, -0.75, 110.3, -0.9992)]
    ['+1.2%', '-40%', 'x3.1', '/4', 'x111', '/1250']
    """
    if error is None or math.isnan(error):
        return DASH
    if -0.5 <= error <= 1:
        return f"{error:+.1%}" if abs(error) < 0.0995 else f"{error:+.0%}"
    factor = factor_of(error)
    return ("x" if error > 0 else "/") + (f"{factor:.0f}" if factor > 9.5 else f"{factor:.2g}")


def unsigned(error: float | None) -> str:
    """Return the size of a relative error; beyond a factor of two as that factor.

    >>> [unsigned(error) for error in (0.012, -0.4, 1.5, -0.75)]
    ['1.2%', '40%', 'x2.5', '/4']
    """
    return signed(error).removeprefix("+").removeprefix("-")


def in_words(error: float) -> str:
    """Return a relative error and its direction in words; beyond a factor of two as that factor.

    >>> [in_words(error) for error in (0.012, -0.4, 2.1, -0.75)]
    ['1.2% too high', '40% too low', '3.1 times too high', '4 times too low']
    """
    text = signed(error)
    size = f"{text[1:]} times" if text[0] in "x/" else text[1:]
    return f"{size} too {'high' if error > 0 else 'low'}"


@dataclass(frozen=True, kw_only=True)
class ErrorSummary:
    """Relative errors of several values.

    Attributes
    ----------
    n, n_repeated:
        The number of values; of those with repeats, whose noise is known.
    n_in_noise, n_within, n_missed:
        Values with a forecast in the noise; with an error of at most `WITHIN`; with neither.
    median, signed, worst:
        The error of middle size, by factors, with the sign of most; the median of errors; and the
        error with the largest factor. NaN without values.
    n_no_reply:
        Values that are missed because the forecast has no reply. They have no size.
    """

    n: int
    n_repeated: int
    n_in_noise: int
    n_within: int
    n_missed: int
    median: float
    signed: float
    worst: float
    n_no_reply: int = 0

    @classmethod
    def of(cls, found: Sequence[Judged], **others: object) -> Self:
        """Return the summary of *found*; *others* are the fields of subclasses."""
        errors = [each.error for each in found if not math.isnan(each.error)]
        return cls(
            n=len(found),
            n_repeated=sum(each.in_noise is not None for each in found),
            n_in_noise=sum(each.in_noise is True for each in found),
            n_within=sum(abs(error) <= WITHIN for error in errors),
            n_missed=sum(each.verdict == "missed" for each in found),
            median=middle_error(errors) if errors else _NAN,
            signed=float(np.median(errors)) if errors else _NAN,
            worst=worst(errors) if errors else _NAN,
            n_no_reply=len(found) - len(errors),
            **others,
        )
