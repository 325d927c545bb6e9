"""Every paper can be scored, at the smallest setting; what its scores say is for the report."""

from __future__ import annotations

import math

import pytest

from dispatchsim.validation.papers.pages import write_pages
from dispatchsim.validation.papers.runs import PAPERS
from dispatchsim.validation.papers.scoring import Setting, score_paper

SMALLEST = Setting(draws=1, few=True)
DRAWN = "provos_lever_2000"
"""The paper whose pages are written: no other one has plots over time."""
LONG = "chandra_mosberger_2001"
"""Its conditions last half a minute each, until queues overflow: `make reports` scores it."""


@pytest.mark.parametrize("name", [name for name in PAPERS if name != LONG])
def test_every_claim_and_question_has_an_answer(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("papers")
    paper = PAPERS[name]
    result = score_paper(paper, SMALLEST)
    assert [each.claim for each in result.scores] == list(paper.claims)
    for each in result.scores:
        assert len(each.held) == 1
        assert len(each.sides) == len(each.claim.expects)
        for side in each.sides:
            assert not math.isnan(side.left), f"{each.claim.name}: {side.comparison}"
            assert not math.isnan(side.right), f"{each.claim.name}: {side.comparison}"
    # The simulator is no coin: of each paper most claims hold even in a single draw.
    assert sum(each.is_reproduced for each in result.scores) > len(result.scores) / 2
    for answer in result.answers:
        assert len(answer.shares) == len(answer.question.hypotheses)
    if name == DRAWN:
        pages = write_pages([result], folder)
        assert all(page.stat().st_size > 0 for page in pages)
