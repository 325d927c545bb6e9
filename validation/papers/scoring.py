"""The results of a paper: how often each claim holds over samples of all free constants.

metrics of each sample ─► Claim.holds ─► share of the samples ─► reproduced from 90% on
margin of each sample ─► rank correlation with each constant ─► decisive constants
a rule switched off ─► claims that fail ─► claims that test the rule
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata, t

from ...sim.files.parallel import run_all
from ..forecast.kept_runs import KeptRuns
from .paper import Claim, Hypothesis, Paper, Question
from .quantities import Comparison, Figures, Values
from .runs import (
    ABLATIONS,
    CurveTask,
    Drawn,
    Points,
    constants_of,
    draws,
    run_curve,
    tasks_of,
)

REPRODUCED = 0.9
"""Share of samples below which a claim depends on unknown constants."""
CHANCE = 0.05
"""Probability that chance alone names any constant as decisive."""
_NAMED = 3
_DRAWS_TO_CORRELATE = 4
_FAR = 1e9  # the margin if one side is infinite


class Side(NamedTuple):
    """One comparison over the samples: medians of both sides at the tightest point, share held."""

    comparison: Comparison
    left: float
    right: float
    share: float


class ClaimScore(NamedTuple):
    """A claim and its results.

    Attributes
    ----------
    claim:
        The claim.
    held:
        Whether it holds in each sample.
    sides:
        The results of its comparisons.
    decisive:
        Constants whose rank correlates with the margin, with the correlation; strongest first.
    """

    claim: Claim
    held: tuple[bool, ...]
    sides: tuple[Side, ...]
    decisive: tuple[tuple[str, float], ...]

    @property
    def share(self) -> float:
        """Share of the samples in which it holds."""
        return sum(self.held) / len(self.held)

    @property
    def is_reproduced(self) -> bool:
        """Whether it holds in at least REPRODUCED of them."""
        return self.share >= REPRODUCED


def score(claim: Claim, figures: Sequence[Figures], drawn: Sequence[Drawn]) -> ClaimScore:
    """Return the score of *claim* over the metrics of all samples *drawn*."""
    held = tuple(claim.holds(each) for each in figures)
    margins = [margin(claim.expects, each) for each in figures]
    decisive = () if all(held) else _decisive(margins, drawn)
    return ClaimScore(
        claim, held, tuple(_side(comparison, figures) for comparison in claim.expects), decisive
    )


def share_of(expected: Claim | Hypothesis, figures: Sequence[Figures]) -> float:
    """Return the share of samples in which all comparisons of *expected* hold."""
    seen = [all(c.holds(each) for c in expected.expects) for each in figures]
    return sum(seen) / len(seen)


def margin(expects: Sequence[Comparison], figures: Figures) -> float:
    """Return the margin of the tightest comparison, in its own unit; below 0 it fails."""
    return min(_margin(comparison, figures) for comparison in expects)


def _margin(comparison: Comparison, figures: Figures) -> float:
    left, right = comparison.left.of(figures), comparison.right.of(figures)
    room = _room(comparison, left, right)
    scale = np.maximum(np.abs(right), 1e-12)
    with np.errstate(invalid="ignore"):
        shares = np.where(np.isinf(room), np.sign(room) * _FAR, room / scale)
    return float(np.min(np.nan_to_num(shares, nan=-_FAR)))


def _room(comparison: Comparison, left: Values, right: Values) -> Values:
    """Return the margin at each point; not a number if both sides are infinite."""
    with np.errstate(invalid="ignore"):
        return right - left if comparison.sign.startswith("<") else left - right


def _side(comparison: Comparison, figures: Sequence[Figures]) -> Side:
    """Return the medians of both sides, each sample at its tightest point."""
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

    With probability 1 - CHANCE, chance names none of the constants (Bonferroni; the t approximation
    of Kendall and Stuart 1973, §31.19).
    """
    far = float(t.ppf(1 - CHANCE / 2 / n_constants, n_draws - 2))
    return far / float(np.sqrt(n_draws - 2 + far**2))


class Answer(NamedTuple):
    """A question, and the share of samples in which each of its hypotheses holds."""

    question: Question
    shares: tuple[float, ...]


class Ablated(NamedTuple):
    """A rule that was switched off, and the claims that hold with it only."""

    rule: str
    fails: tuple[str, ...]


class PaperResult(NamedTuple):
    """A paper and its results; `figures` and `drawn` have one entry for each sample."""

    paper: Paper
    drawn: Sequence[Drawn]
    figures: Sequence[Figures]
    scores: Sequence[ClaimScore]
    answers: Sequence[Answer]
    ablated: Sequence[Ablated] = ()

    def band(self, condition: str, server: str, figure: str) -> tuple[np.ndarray, ...]:
        """Return the axis and the 5, 50 and 95% quantiles over samples, shape (points,) each."""
        axis = sorted({x for c, s, x in self.figures[0] if (c, s) == (condition, server)})
        values = np.array([[f[condition, server, x][figure] for x in axis] for f in self.figures])
        low, middle, high = np.quantile(values, (0.05, 0.5, 0.95), axis=0, method="nearest")
        return np.array(axis), low, middle, high

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            "format": "dispatchsim-paper/1",
            "paper": self.paper.name,
            "title": self.paper.title,
            "machine": self.paper.machine,
            "draws": len(self.drawn),
            "claims": [_score_dict(each, self.paper) for each in self.scores],
            "omitted": {each.name: each.why for each in self.paper.omitted},
            "questions": [
                {
                    "name": answer.question.name,
                    "asks": answer.question.asks,
                    "hypotheses": {
                        h.name: share
                        for h, share in zip(answer.question.hypotheses, answer.shares, strict=True)
                    },
                }
                for answer in self.answers
            ],
            "ablation": {each.rule: list(each.fails) for each in self.ablated},
        }


def result_of(paper: Paper, drawn: Sequence[Drawn], figures: Sequence[Figures]) -> PaperResult:
    """Return the scores of all claims of *paper*, and the answers to its questions."""
    scores = [score(claim, figures, drawn) for claim in paper.claims]
    answers = [
        Answer(question, tuple(share_of(h, figures) for h in question.hypotheses))
        for question in paper.questions
    ]
    return PaperResult(paper, drawn, figures, scores, answers)


def ablated(
    paper: Paper, rule: str, base: Sequence[Figures], without: Sequence[Figures]
) -> Ablated:
    """Return the claims of *paper* that hold in the metrics *base* and fail *without* the rule."""
    fails = [
        claim.name
        for claim in paper.claims
        if share_of(claim, base) >= REPRODUCED > share_of(claim, without)
    ]
    return Ablated(rule, tuple(fails))


def _score_dict(each: ClaimScore, paper: Paper) -> Mapping[str, Any]:
    claim = each.claim
    return {
        "name": claim.name,
        "kind": claim.kind,
        "condition": claim.condition,
        "quantity": claim.quantity,
        "says": claim.says,
        "band": claim.band,
        "source": claim.source,
        "holds": each.share,
        "reproduced": each.is_reproduced,
        "why_not": "" if each.is_reproduced else paper.why_not.get(claim.name, ""),
        "revised": claim.name in paper.revised,
        "registered": claim.name not in paper.beyond,
        "decisive": dict(each.decisive),
        "sides": [
            {
                "expects": str(side.comparison),
                "left": side.left if np.isfinite(side.left) else None,
                "right": side.right if np.isfinite(side.right) else None,
                "holds": side.share,
            }
            for side in each.sides
        ],
    }


class Setting(NamedTuple):
    """The number and length of runs.

    Attributes
    ----------
    draws:
        Samples of all free constants, each with its own seed.
    few:
        Fewer points and shorter runs.
    ablation_draws:
        Samples for each ablation; 0: no ablations.
    """

    draws: int
    few: bool
    ablation_draws: int = 0


FAST = Setting(draws=10, few=True)
FULL = Setting(draws=40, few=False, ablation_draws=10)


def score_paper(
    paper: Paper,
    setting: Setting,
    *,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    kept: KeptRuns | None = None,
) -> PaperResult:
    """Return the simulator's results for *paper*.

    Parameters
    ----------
    setting:
        Number and length of runs.
    executor:
        Simulates the runs; None: in this process, one after the other.
    progress:
        Called with (curves done, curves in all) as they end.
    kept:
        Results of earlier runs; None: simulate everything.
    """
    n = setting.ablation_draws
    tasks = tasks_of(paper, paper.all_conditions, n_draws=setting.draws, few=setting.few)
    rules = {
        rule: tasks_of(paper, paper.conditions, n_draws=n, few=True, ablation=rule)
        for rule in ("", *ABLATIONS)
        if n > 0
    }
    whole = list(dict.fromkeys([*tasks, *(task for own in rules.values() for task in own)]))
    found: dict[CurveTask, Points] = {}
    for index, points in (kept or run_all)(run_curve, whole, executor):
        found[whole[index]] = points
        if progress:
            progress(len(found), len(whole))

    def figures(own: Sequence[CurveTask], n_draws: int) -> list[Points]:
        of_draws: list[Points] = [{} for _ in range(n_draws)]
        for task in own:
            of_draws[task.draw].update(found[task])
        return of_draws

    drawn = draws(constants_of(paper), setting.draws)
    result = result_of(paper, drawn, figures(tasks, setting.draws))
    if n == 0:
        return result
    base = figures(rules.pop(""), n)
    fails = []
    for rule, own in rules.items():
        both = [
            {**with_it, **without} for with_it, without in zip(base, figures(own, n), strict=True)
        ]
        fails.append(ablated(paper, rule, base, both))
    return result._replace(ablated=fails)
