"""Linux' rules beside the simulator's: what agrees, what does not, and what is not asked."""

from __future__ import annotations

import pytest

from dispatchsim.calibration.rules.asked import Answer, catalogue, kept_answers, selected
from dispatchsim.sim.files.tables import markdown
from dispatchsim.validation.rules.comparison import (
    SCENES,
    Compared,
    Verdict,
    compare,
    differences,
    families_table,
    in_models_words,
    not_asked_table,
    rules_table,
)

LINUX = kept_answers("6.18.44")


@pytest.fixture(scope="module")
def rows() -> list[Compared]:
    """Return all rules beside what Linux 6.18 answered."""
    return compare(LINUX, "6.18.44")


def of(rows: list[Compared], verdict: Verdict) -> set[str]:
    return {row.rule.name for row in rows if row.verdict == verdict}


def test_each_scene_answers_a_rule_and_no_rule_is_left_out(rows: list[Compared]) -> None:
    assert set(SCENES) <= set(catalogue())
    assert [row.rule.name for row in rows] == list(catalogue())


def test_the_rules_that_differ_are_those_that_are_listed_with_a_reason(
    rows: list[Compared],
) -> None:
    assert of(rows, Verdict.DIFFERS) == set(differences()["differs"])


def test_the_rules_that_are_not_modelled_are_listed_too(rows: list[Compared]) -> None:
    assert of(rows, Verdict.NOT_MODELLED) == set(differences()["not_modelled"])


def test_at_least_sixty_rules_agree(rows: list[Compared]) -> None:
    assert len(of(rows, Verdict.AGREES)) >= 60


def test_what_the_model_declares_does_not_count_as_agreement(rows: list[Compared]) -> None:
    assert of(rows, Verdict.DECLARED) == {"ack_with_reply", "time_wait"}
    assert not SCENES["epoll_level_order"].declared


def test_a_rule_that_was_not_asked_does_not_agree() -> None:
    (row,) = compare(
        {"select_order": Answer(not_asked="no sockets here")}, "6.18", ["select_order"]
    )
    assert row.verdict == Verdict.NOT_ASKED
    assert row.why == "no sockets here"
    assert {row.verdict for row in compare({}, "6.18")} == {Verdict.NOT_ASKED}


def test_rules_that_share_a_reason_not_to_be_asked_share_a_row() -> None:
    missing = Answer(not_asked="/sys/kernel/tracing/instances: No such file or directory")
    answers = LINUX | {"softirq_poll": missing, "softirq_rounds": missing}
    del answers["syn_times"]
    rows = compare(answers, "6.18.44", left_out="left out by --quick")
    assert not_asked_table(rows).rows == [
        ("left out by --quick", "syn_times"),
        (
            "tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)",
            "softirq_poll, softirq_rounds",
        ),
    ]
    assert not_asked_table(compare(LINUX, "6.18.44")).rows == []


def test_another_answer_of_linux_differs() -> None:
    (row,) = compare({"select_order": Answer([3, 1, 2])}, "6.18", ["select_order"])
    assert (row.linux.value, row.ours, row.verdict) == ([3, 1, 2], [1, 2, 3], Verdict.DIFFERS)


def test_a_family_can_be_compared_alone() -> None:
    assert {row.rule.family for row in compare(LINUX, "6.18.44", selected(["scans"]))} == {"scans"}


@pytest.mark.parametrize(
    ("rule", "linux", "models"),
    [
        ("read_after_reset", [100, "ECONNRESET", 0], [100, 0, 0]),
        ("write_after_reset", ["ECONNRESET"], ["fails"]),
        ("serve_after_reset", [100, "EPIPE"], [100, "fails"]),
        ("close_unread", ["ECONNRESET"], ["ECONNRESET"]),
        ("accept_empty", "EAGAIN", "EAGAIN"),
        ("epoll_level_order", [[3, 1, 2]], [[3, 1, 2]]),
    ],
)
def test_an_end_is_an_end_in_the_models_words(rule: str, linux: list[int], models: object) -> None:
    assert in_models_words(rule, linux) == models


def test_the_tables_have_a_row_for_each_rule_and_each_family(rows: list[Compared]) -> None:
    assert len(rules_table(rows).rows) == len(rows)
    row = next(row for row in rules_table(rows).rows if row[0] == "accept_empty_at_limit")
    assert row[1:] == (
        '"EMFILE"',
        '"EMFILE"',
        "agrees",
        "net/socket.c __sys_accept4_file(): the number is taken first",
    )
    families = families_table(rows)
    assert families.rows[-1][0] == "all"
    n_all = sum(int(cell) for cell in families.rows[-1][1:])
    assert n_all == len(rows)
    assert "| scans " in markdown(families)


def test_linux_6_1_differs_where_6_18_does_but_for_what_changed_since() -> None:
    before = compare(kept_answers("6.1.192"), "6.1.192")
    differs = of(before, Verdict.DIFFERS)
    assert differs <= set(differences()["differs"])
    now = {row.rule.name: row.linux.value for row in compare(LINUX, "6.18.44")}
    changed = {
        row.rule.name
        for row in before
        if not row.linux.not_asked and row.linux.value != now[row.rule.name]
    }
    # Linear time-outs came with 6.5; of the acknowledgement nothing is modelled.
    assert changed == {"ring_order", "ring_at_once", "syn_times", "ack_of_second_segment"}
    assert not changed & differs
