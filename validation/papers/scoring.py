"""How often each claim holds over draws of all that is free, and which constant decides it.

figures of each draw ─► Claim.holds ─► share of the draws ─► reproduced from 90% on
margin of each draw ─┬─► rank correlation with each constant ─► what decides
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata, t

from .draws import Drawn
from .paper import Claim, Hypothesis
from .quantities import Comparison, Figures, Values

REPRODUCED = 0.9
"""Of the draws: below, a claim depends on constants that nobody knows."""
CHANCE = 0.05
"""How likely chance alone may name any constant at all as one that decides."""
_NAMED = 3
_DRAWS_TO_CORRELATE = 4
_FAR = 1e9  # a margin where one side is infinite


class Side(NamedTuple):
    """One comparison over the draws: medians of both sides where it is tightest, share it holds."""

    comparison: Comparison
    left: float
    right: float
    share: float


class ClaimScore(NamedTuple):
    """A claim and what became of it.

    Attributes
    ----------
    claim:
        The claim.
    held:
        Whether it holds, by draw.
    sides:
        Each thing that it expects.
    decisive:
        Constants whose rank in the draws goes with how well it holds, with the correlation; the
        strongest first.
    """

    claim: Claim
    held: tuple[bool, ...]
    sides: tuple[Side, ...]
    decisive: tuple[tuple[str, float], ...]

    @property
    def share(self) -> float:
        """Share of the draws in which it holds."""
        return sum(self.held) / len(self.held)

    @property
    def is_reproduced(self) -> bool:
        """Whether it holds in at least REPRODUCED of them."""
        return self.share >= REPRODUCED


def score(claim: Claim, figures: Sequence[Figures], drawn: Sequence[Drawn]) -> ClaimScore:
    """Return how often *claim* holds in the *figures* of each of the draws *drawn*."""
    held = tuple(claim.holds(each) for each in figures)
    margins = [margin(claim.expects, each) for each in figures]
    decisive = () if all(held) else _decisive(margins, drawn)
    return ClaimScore(
        claim, held, tuple(_side(comparison, figures) for comparison in claim.expects), decisive
    )


def share_of(expected: Claim | Hypothesis, figures: Sequence[Figures]) -> float:
    """Return the share of draws in which all that is *expected* is seen."""
    seen = [all(c.holds(each) for c in expected.expects) for each in figures]
    return sum(seen) / len(seen)


def margin(expects: Sequence[Comparison], figures: Figures) -> float:
    """Return by how much the tightest comparison holds, in its own unit; below 0 it does not."""
    return min(_margin(comparison, figures) for comparison in expects)


def _margin(comparison: Comparison, figures: Figures) -> float:
    left, right = comparison.left.of(figures), comparison.right.of(figures)
    room = _room(comparison, left, right)
    scale = np.maximum(np.abs(right), 1e-12)
    with np.errstate(invalid="ignore"):
        shares = np.where(np.isinf(room), np.sign(room) * _FAR, room / scale)
    return float(np.min(np.nan_to_num(shares, nan=-_FAR)))


def _room(comparison: Comparison, left: Values, right: Values) -> Values:
    """Return by how much each point holds; not a number where both sides are infinite."""
    with np.errstate(invalid="ignore"):
        return right - left if comparison.sign.startswith("<") else left - right


def _side(comparison: Comparison, figures: Sequence[Figures]) -> Side:
    """Return the medians of both sides, each draw at the point where it is tightest."""
    lefts, rights = [], []
    for each in figures:
        left, right = np.broadcast_arrays(comparison.left.of(each), comparison.right.of(each))
        room = _room(comparison, left, right)
        tightest = int(np.argmin(np.where(np.isnan(room), -np.inf, room)))
        lefts.append(left[tightest])
        rights.append(right[tightest])
    share = sum(comparison.holds(each) for each in figures) / len(figures)
    return Side(comparison, float(np.median(lefts)), float(np.median(rights)), share)


def _decisive(
    margins: Sequence[float], drawn: Sequence[Mapping[str, float]]
) -> tuple[tuple[str, float], ...]:
    ranks = rankdata(margins)
    if len(drawn) <= _DRAWS_TO_CORRELATE or len(set(ranks)) == 1:
        return ()
    least = _least_correlation(len(drawn), len(drawn[0]))
    found = []
    for name in drawn[0]:
        own = rankdata([each[name] for each in drawn])
        correlation = float(np.corrcoef(ranks, own)[0, 1])
        if abs(correlation) >= least:
            found.append((name, correlation))
    found.sort(key=lambda pair: -abs(pair[1]))
    return tuple(found[:_NAMED])


def _least_correlation(n_draws: int, n_constants: int) -> float:
    """Return the rank correlation from which on a constant is named.

    Of so many constants chance names none, but for CHANCE of the times (Bonferroni; the t
    approximation of Kendall and Stuart 1973, §31.19).
    """
    far = float(t.ppf(1 - CHANCE / 2 / n_constants, n_draws - 2))
    return far / float(np.sqrt(n_draws - 2 + far**2))
