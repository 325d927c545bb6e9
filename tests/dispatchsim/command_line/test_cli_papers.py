"""`validate papers`: what it writes, what it keeps, what it refuses."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from dispatchsim.validation.papers import scoring
from dispatchsim.validation.papers.runs import PAPERS, CurveTask, run_curve, tasks_of
from dispatchsim.validation.papers.scoring import Setting, score_paper

Call = Callable[..., Result]
NAME = "mogul_ramakrishnan_1996"
SMALL = ("validate", "papers", "--paper", NAME, "--fast", "--cost-samples", "2", "--workers", "1")


def test_a_paper_is_scored_drawn_and_kept(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    first = call(*SMALL, "--output", output)
    assert first.exit_code == 0, first.stderr
    (scores,) = json.loads((output / "scores.json").read_text())
    assert scores["paper"] == NAME
    assert scores["draws"] == 2
    names = {claim["name"] for claim in scores["claims"]}
    assert names == {claim.name for claim in PAPERS[NAME].claims}
    page = (output / f"{NAME}.html").read_text()
    assert all(name in page for name in names)
    assert page.count("<svg") == len(PAPERS[NAME].plots)
    assert f"{NAME}.html" in (output / "index.html").read_text()
    for number in range(1, len(PAPERS[NAME].plots) + 1):
        assert (output / "figures" / f"{NAME}_{number}.png").stat().st_size > 0

    # A run that was kept is not run again, and one whose line was cut is.
    kept = output / "runs.jsonl"
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join([*lines[:-1], lines[-1][:30]]))
    again: list[object] = []

    @functools.wraps(run_curve)  # the name of the work is part of a run's key
    def counted(task: CurveTask) -> object:
        again.append(task)
        return run_curve(task)

    monkeypatch.setattr(scoring, "run_curve", counted)
    second = call(*SMALL, "--output", output)
    assert second.exit_code == 0
    assert len(again) == 1
    assert second.stdout == first.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("papers", "--paper", "mogul_1996"), "must be one of mogul_ramakrishnan_1996"),
        (("papers", "--profile", "x"), "--profile: must be absent here; it belongs to"),
        (("machine", "measured", "--fast"), "it belongs to `dispatchsim validate papers`"),
        (("papers", "--cost-samples", "0"), "--cost-samples: must be a whole number from 1 to"),
    ],
)
def test_what_makes_no_sense_is_said_and_nothing_is_written(
    call: Call, arguments: tuple[str, ...], words: str
) -> None:
    result = call("validate", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert list(Path().iterdir()) == []


def test_an_ablation_runs_only_servers_that_it_changes() -> None:
    paper = PAPERS["chandra_mosberger_2001"]
    setting = {"n_draws": 1, "few": True}

    def servers(rule: str) -> set[str]:
        tasks = tasks_of(paper, paper.conditions, **setting, ablation=rule)  # type: ignore[arg-type]
        return {task.server for task in tasks}

    assert servers("coalescing") == {"signal-per-fd"}
    assert servers("signal bound") == {"RT signals", "no recovery", "recovery by hand-over"}
    assert {"select", "masel"} <= servers("wait-queue registration")
    assert "RT signals" not in servers("wait-queue registration")


def test_a_rule_that_is_switched_off_makes_a_claim_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = PAPERS["chandra_mosberger_2001"]
    (condition,) = (c for c in paper.conditions if c.name == "252 idle")
    servers = {"RT signals": condition.servers["RT signals"]}
    short = paper._replace(
        # The claim is of this server, up to 3000/s and from 3400/s on.
        conditions=(condition._replace(servers=servers, few_at=(3000.0, 3400.0)),),
        claims=tuple(c for c in paper.claims if c.name == "CM01-23"),
        questions=(),
        plots=(),
    )
    monkeypatch.setitem(PAPERS, paper.name, short)
    result = score_paper(short, Setting(1, few=True, ablation_draws=1))
    fails = {each.rule: each.fails for each in result.ablated}
    assert result.scores[0].is_reproduced
    assert fails["signal bound"] == ("CM01-23",)
    assert fails["SIGIO first"] == ("CM01-23",)
