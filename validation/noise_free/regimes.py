"""How good forecasts are where the server copes, where its clients wait for it, and beyond.

Below its capacity a server's figures follow its costs. From there on they follow its queues, where
one connection more or less may decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..report_tables import DASH, TextTable
from .promises import LIMITS, NAMES, is_within
from .scoring import RunScore
from .tables import size_text

REGIMES = ("below capacity, open", "closed loops", "from capacity on")


def regime_of(score: RunScore) -> str:
    """Return which of the regimes a run belongs to."""
    if score.point.loop == "closed":
        return REGIMES[1]
    return REGIMES[2] if score.load_share is None or score.load_share >= 1 else REGIMES[0]


def regime_table(scores: Sequence[RunScore]) -> TextTable:
    """Return by figure the median error in each regime, and the share of runs within the limit."""
    unseen = [score for score in scores if not score.seen]
    rows = [
        (NAMES[figure], f"{limit:.1%}", *(_cell(unseen, figure, regime) for regime in REGIMES))
        for figure, limit in LIMITS.items()
    ]
    note = (
        "Median of the absolute errors over runs that the fit did not see, and in brackets the "
        "share of runs within the limit."
    )
    return TextTable("By load", note, ("figure", "within", *REGIMES), rows)


def _cell(scores: Sequence[RunScore], figure: str, regime: str) -> str:
    errors = [
        (getattr(score.errors, figure), is_within(score.errors, [figure]))
        for score in scores
        if regime_of(score) == regime and getattr(score.errors, figure) is not None
    ]
    if not errors:
        return DASH
    median = float(np.median([abs(error) for error, _ in errors]))
    within = sum(inside for _, inside in errors)
    return f"{size_text(median)} ({within} of {len(errors)})"
