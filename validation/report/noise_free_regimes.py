"""How good forecasts are where the server copes, where its clients wait for it, and beyond.

Below its capacity a server's figures follow its costs. From there on they follow its queues, where
one connection more or less may decide.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..noise_free.promises import NAMES, Promise, promises
from ..noise_free.scoring import RunScore
from ..scoring.targets import OURS
from .noise_free_tables import size_text
from .tables import DASH, TextTable

REGIMES = ("below capacity, open", "closed loops", "from capacity on")


def regime_of(score: RunScore) -> str:
    """Return which of the regimes a run belongs to.

    Of a server whose capacity nobody measured, whether it kept up in this run decides.
    """
    if score.point.loop == "closed":
        return REGIMES[1]
    over = score.saturated if score.load_share is None else score.load_share >= 1
    return REGIMES[2] if over else REGIMES[0]


def regime_table(scores: Sequence[RunScore]) -> TextTable:
    """Return by figure the median error in each regime, and the share of runs within the limit."""
    of_regimes = [
        promises([score for score in scores if regime_of(score) == regime]) for regime in REGIMES
    ]
    rows = [
        (NAMES[row[0].figure], f"{row[0].limit:.1%}", *map(_cell, row))
        for row in zip(*of_regimes, strict=True)
    ]
    note = (
        "Median of the absolute errors over runs that the fit did not see, and in brackets the "
        "share of runs within the limit."
    )
    return TextTable("By load", note, ("figure", "within", *REGIMES), rows)


def _cell(promise: Promise) -> str:
    found = promise.errors[OURS]
    if found.n_runs == 0:
        return DASH
    return f"{size_text(found.median)} ({promise.n_runs_within} of {found.n_runs})"
