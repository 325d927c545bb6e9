"""The questions to the kernel, its answers, and what is kept of them."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.calibration.c.sanitized import sanitized

from dispatchsim.calibration.records.kernel_files import release_of
from dispatchsim.calibration.rules import asked
from dispatchsim.calibration.rules.asked import (
    FOLDER,
    Answer,
    Answers,
    ask,
    catalogue,
    keep,
    kept,
    kept_answers,
    kept_files,
    read_answers,
    selected,
    this_machine,
)

C = FOLDER.parent / "c"
FAMILIES = {
    "scans": 8,
    "epoll": 8,
    "signals": 8,
    "ends of connections": 8,
    "TCP timers": 8,
    "io_uring": 4,
    "scheduling": 4,
    "softirq": 4,
}
"""The least number of rules of each."""


_MAY_BE_NOT_ASKED = {
    *("softirq_poll", "softirq_rounds", "softirq_in_one_go"),
    *("ksoftirqd_works", "ksoftirqd_and_interrupts", "timer_steps", "turn_of_nicest"),
}


@pytest.fixture(scope="module")
def program() -> Path:
    """Return the program that asks, built with sanitizers."""
    return sanitized("rules") / "rules"


@pytest.fixture(scope="module", autouse=True)
def _no_search_for_leaks() -> Iterator[None]:
    # The sanitizer looks through /proc, for which rules at the limit of descriptors have none.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASAN_OPTIONS", "detect_leaks=0")
        yield


@pytest.fixture(scope="module")
def live(program: Path) -> Answers:
    """Return what the kernel at hand answers to all that does not take long."""
    return ask(program=program, quick=True)


def test_each_family_has_its_rules_and_each_rule_its_words() -> None:
    rules = list(catalogue().values())
    n_rules = {family: sum(rule.family == family for rule in rules) for family in FAMILIES}
    assert {rule.family for rule in rules} == set(FAMILIES)
    assert all(n_rules[family] >= least for family, least in FAMILIES.items()), n_rules
    assert len(rules) >= 60
    assert all(rule.question[-1] in "?." and rule.source and rule.answer for rule in rules)


def test_the_program_and_the_catalogue_know_the_same_rules(program: Path) -> None:
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    assert sorted(listed.stdout.split()) == sorted(catalogue())


def test_a_line_is_an_answer_or_the_reason_why_there_is_none() -> None:
    lines = [
        '{"rule": "select_order", "answer": [1, 2, 3]}',
        '{"rule": "syn_times", "not_asked": "/dev/net/tun: Permission denied"}',
    ]
    assert read_answers(lines) == {
        "select_order": Answer([1, 2, 3]),
        "syn_times": Answer(not_asked="/dev/net/tun: Permission denied"),
    }


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        '{"rule": "no_such", "answer": 1}',
        '{"rule": "select_order"}',
        '{"rule": "select_order", "answer": 1, "not_asked": ""}',
        '{"answer": 1}',
    ],
)
def test_another_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no answer to a rule of the catalogue"):
        read_answers([line])


def test_neither_a_rule_nor_a_family_is_refused(program: Path) -> None:
    with pytest.raises(ValueError, match='no family or rule is called "selct" '):
        ask(program=program, only=["selct"])


def test_several_rules_and_families_can_be_asked(program: Path) -> None:
    command = [str(program), "--list", "--only", "accept_empty,no_such,TCP timers"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    timers = {name for name, rule in catalogue().items() if rule.family == "TCP timers"}
    assert sorted(listed) == sorted({"accept_empty", *timers})
    answers = ask(program=program, only=["select_order", "poll_order"])
    assert set(answers) == {"select_order", "poll_order"}


@pytest.mark.parametrize(
    ("texts", "rules"),
    [
        ([], []),
        (["accept_empty"], ["accept_empty"]),
        (["select_c", "select_b"], ["select_closed", "select_beyond_1024"]),
        (["SELECT_CLOSED"], ["select_closed"]),
    ],
)
def test_rules_are_selected_by_a_part_of_their_names(texts: list[str], rules: list[str]) -> None:
    assert selected(texts) == rules


def test_a_part_of_a_family_selects_its_rules() -> None:
    of_family = [name for name, rule in catalogue().items() if rule.family == "TCP timers"]
    assert selected(["TCP"]) == selected(["tcp timers"]) == of_family
    assert {catalogue()[name].family for name in selected(["epoll"])} == {"epoll"}


@pytest.mark.parametrize("text", ["selct", ""])
def test_what_is_no_part_of_a_name_selects_nothing(text: str) -> None:
    with pytest.raises(LookupError, match=f"^{text}$"):
        selected(["epoll", text])


def test_a_forbidden_question_is_not_asked(program: Path) -> None:
    # Without a descriptor to spare it cannot be asked, and nothing fails.
    command = ["bash", "-c", 'ulimit -n 5; exec "$0" --only read_after_reset', str(program)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(finished.stdout)
    assert found == {"rule": "read_after_reset", "not_asked": "accept: Too many open files"}


def _children(process: int) -> list[int]:
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for each in lists for child in each.read_text().split()]


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait_for(happens: Callable[[], object]) -> None:
    for _ in range(6000):
        if happens():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen within a minute")


@pytest.mark.parametrize("rule", ["wakes_beside_busy", "signal_held_elsewhere"])
@pytest.mark.parametrize("who_is_killed", ["the program", "the rule"])
def test_no_child_outlives_its_rule(program: Path, rule: str, who_is_killed: str) -> None:
    with subprocess.Popen([program, "--only", rule], stdout=subprocess.PIPE) as process:
        asks: list[int] = []
        children: list[int] = []

        def begun() -> bool:
            asks[:] = _children(process.pid)
            children[:] = [child for each in asks for child in _children(each)]
            return bool(children) or process.poll() is not None

        _wait_for(begun)
        if not children:
            pytest.skip(f"the kernel at hand is not asked {rule}")
        killed = process.pid if who_is_killed == "the program" else asks[0]
        os.kill(killed, signal.SIGKILL)
        _wait_for(lambda: not any(_runs(each) for each in (*asks, *children)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_no_trace_of_a_rule_is_left(program: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [program, "--only", "softirq_rounds"], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        traces: list[Path] = []

        def begun() -> bool:
            names = (f"rules-{child}" for child in _children(process.pid))
            traces[:] = [Path("/sys/kernel/tracing/instances", name) for name in names]
            return any(each.is_dir() for each in traces) or process.poll() is not None

        _wait_for(begun)
        if process.poll() is not None:
            pytest.skip("the kernel at hand permits no trace of one's own")
        os.killpg(process.pid, number)
        _wait_for(lambda: not any(each.is_dir() for each in traces))


def test_a_program_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    noted = tmp_path / "child"
    command = ["bash", "-c", f"sleep 60 & echo $! > {noted}; wait"]
    with pytest.raises(ValueError, match=r"did not end in 0\.5 s"):
        asked._finished(command, 0.5)
    _wait_for(lambda: not _runs(int(noted.read_text())))


def test_answers_are_kept_with_their_kernel_and_read_again(tmp_path: Path) -> None:
    answers = {
        "select_order": Answer([1, 2, 3]),
        "accept_empty": Answer("EAGAIN"),
        "syn_times": Answer(not_asked="unshare: Operation not permitted"),
    }
    path = keep(answers, this_machine(), tmp_path)
    assert release_of(path) == platform.release()
    assert kept(path) == answers
    assert json.loads(path.read_text())["kernel"] == platform.release()
    assert ' "select_order": [1, 2, 3],\n' in path.read_text()


def test_another_file_is_no_answers(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="format must be dispatchsim-rules/1"):
        kept(tmp_path / "other.json")


def test_answers_of_a_kernel_come_with_the_library() -> None:
    newest = kept(kept_files()[-1])
    assert sum(not found.not_asked for found in newest.values()) >= 60
    assert set(newest) <= set(catalogue())


def test_the_kernel_at_hand_answers_as_it_did(live: Answers) -> None:
    version = platform.release().partition("-")[0]
    if not any(release_of(path).startswith(f"{version}-") for path in kept_files()):
        pytest.skip(f"nothing is kept of Linux {platform.release()}")
    before = kept_answers(version)
    not_asked = {name for name, found in live.items() if found.not_asked}
    if os.geteuid() == 0 and (os.cpu_count() or 1) > 1:
        # Root may ask all but what the trace, or the speed of the CPUs at that moment, forbids.
        assert not_asked <= _MAY_BE_NOT_ASKED
    for name, found in live.items():
        if found.not_asked or before[name].not_asked or catalogue()[name].timing:
            continue
        assert found == before[name], name
