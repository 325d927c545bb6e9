"""What was found of a paper: figures of every draw, scores, answers, what each rule is good for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .draws import Drawn
from .paper import Paper, Question
from .quantities import Figures
from .scoring import REPRODUCED, ClaimScore, score, share_of
from .why_not import WHY_NOT


class Answer(NamedTuple):
    """A question, and in which share of the draws each of its hypotheses shows what it must."""

    question: Question
    shares: tuple[float, ...]


class Ablated(NamedTuple):
    """A rule that was switched off, and the claims that held with it and do not without."""

    rule: str
    fails: tuple[str, ...]


class PaperResult(NamedTuple):
    """A paper and all that was found; `figures` has one entry a draw, as `drawn` has."""

    paper: Paper
    drawn: Sequence[Drawn]
    figures: Sequence[Figures]
    scores: Sequence[ClaimScore]
    answers: Sequence[Answer]
    ablated: Sequence[Ablated] = ()

    def band(self, condition: str, server: str, figure: str) -> tuple[np.ndarray, ...]:
        """Return the axis and the 5, 50 and 95% quantiles over the draws, shape (points,) each."""
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
    """Return which claims of *paper* hold in the figures *base*, and fail *without* the rule."""
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
        "why_not": "" if each.is_reproduced else WHY_NOT.get(claim.name, ""),
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
