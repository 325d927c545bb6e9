"""Tables and pages of papers: what was missed comes first, with its reason, and all is escaped."""

from __future__ import annotations

from pathlib import Path

from dispatchsim.validation.papers.pages import (
    ablation_table,
    claim_table,
    missed_table,
    overall_table,
    write_pages,
)
from dispatchsim.validation.papers.paper import Claim, Condition, Hypothesis, Paper, Question
from dispatchsim.validation.papers.quantities import Curve, Figures
from dispatchsim.validation.papers.runs import draws
from dispatchsim.validation.papers.scoring import Ablated, PaperResult, ablated, result_of

RATE = Curve("rate", "here", "<a>", (1.0,))


def claim(name: str, limit: float, kind: str = "V") -> Claim:
    """Return the claim that the rate is at least *limit*."""
    assert kind in ("V", "M")
    return Claim(name, kind, "here", "rate", "is <high>", (limit <= RATE,), "none", "§1")  # type: ignore[arg-type]


PAPER = Paper(
    "author_2000",
    "Author 2000",
    "machine",
    conditions=(Condition("here", "scenario", {"<a>": {}}, "load.rate", (1.0,)),),
    claims=(claim("X-1", 1.0), claim("X-2", 9.0), claim("X-3", 1.0, "M")),
    questions=(Question("why", "Why?", (), (Hypothesis("because", "it is", (RATE >= 1.0,)),)),),
    assumed=("that <b> holds",),
    revised=("X-1",),
)


def result(rate: float = 2.0, n: int = 2) -> PaperResult:
    """Return the result of *n* draws with that rate."""
    seen: Figures = {("here", "<a>", 1.0): {"rate": rate}}
    return result_of(PAPER, draws(["cost"], n), [seen] * n)


def test_claims_that_miss_come_first() -> None:
    rows = claim_table(result()).rows
    assert [row[0] for row in rows] == ["X-2", "X-1", "X-3"]
    assert [row[-1] for row in rows] == ["missed", "reached", "reached"]
    missed = missed_table(result())
    assert missed is not None
    assert missed.rows[0] == ("X-2", "rate of <a> at 1 (here) >= 9", "2 against 9", "0%")
    assert missed_table(result(10.0)) is None


def test_results_and_counters_are_counted_apart_and_together() -> None:
    rows = overall_table([result(), result(10.0, n=10)]).rows
    assert rows[0] == ("author_2000", "1/2", "1/1", "67%", "1", "too few samples")
    assert rows[1] == ("author_2000", "2/2", "1/1", "100%", "1", "reached")
    assert rows[2][1:] == ("3/4", "2/2", "83%", "2", "too few samples")


def test_claims_that_the_register_did_not_list_count_apart() -> None:
    beyond = result(10.0, n=10)
    beyond = beyond._replace(paper=beyond.paper._replace(beyond=("X-2", "X-3")))
    none_listed = beyond._replace(paper=beyond.paper._replace(beyond=("X-1", "X-2", "X-3")))
    rows = overall_table([beyond, none_listed, result(10.0, n=10)]).rows
    assert [row[:3] for row in rows] == [
        ("author_2000", "1/1", "-"),
        ("author_2000, not in the register", "1/1", "1/1"),
        ("author_2000, not in the register", "2/2", "1/1"),
        ("author_2000", "2/2", "1/1"),
        ("all in the register", "3/3", "1/1"),
    ]


def test_a_rule_is_good_for_the_claims_that_fail_without_it() -> None:
    with_it, without = result().figures, result(0.5).figures
    found = ablated(PAPER, "rule", with_it, without)
    assert found == Ablated("rule", ("X-1", "X-3"))
    assert ablated(PAPER, "other", with_it, with_it).fails == ()
    rows = ablation_table([result()._replace(ablated=[found, Ablated("other", ())])]).rows
    assert rows[0] == ("rule", "X-1, X-3", "2", "reached")
    assert rows[1] == ("other", "none", "0", "missed")


def test_pages_escape_what_papers_say(tmp_path: Path) -> None:
    write_pages([result()], tmp_path)
    page = (tmp_path / "author_2000.html").read_text()
    for raw in ("<high>", "<b>", "<a>"):
        assert raw not in page
    assert "&lt;high&gt;" in page
    assert page.index("X-2") < page.index("X-1")
    assert "Why?" in page
