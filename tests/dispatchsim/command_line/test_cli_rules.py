"""`validate rules`: what it prints of Linux and the simulator, what it writes, what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from dispatchsim.calibration.records import kernel_files
from dispatchsim.calibration.rules import asked
from dispatchsim.calibration.rules.asked import Answer, Source, catalogue, kept

Call = Callable[..., Result]
KEPT = ("validate", "rules", "--kept", "6.18.44")


def test_a_rule_is_printed_with_both_answers_and_the_lines_of_the_kernel(call: Call) -> None:
    result = call(*KEPT, "--only", "accept_empty_at_limit")
    assert result.exit_code == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert '"EMFILE" "EMFILE" agrees' in words
    assert "__sys_accept4_file()" in words


def test_few_rules_are_printed_with_their_questions(call: Call) -> None:
    words = " ".join(call(*KEPT, "--only", "read_after_reset").stdout.split())
    assert catalogue()["read_after_reset"].question in words
    assert f"Answer: {catalogue()['read_after_reset'].answer}" in words
    many = call(*KEPT, "--only", "scans").stdout
    assert catalogue()["select_order"].question[:20] not in many
    assert "Questions and lines of the kernel: --only with fewer rules" in many


def test_several_parts_of_names_select_rules(call: Call) -> None:
    words = call(*KEPT, "--only", "accept_empty", "--only", "select_c").stdout.split()
    assert {"accept_empty", "select_closed"} == set(words) & set(catalogue())


@pytest.mark.parametrize("columns", ["80", "110"])
def test_names_of_rules_and_files_are_not_folded(
    call: Call, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = call(*KEPT).stdout.splitlines()
    assert {line.split(" ")[0] for line in lines} >= set(catalogue())
    words = {word.rstrip(":") for line in lines for word in line.split()}
    assert ("net/ipv4/inet_connection_sock.c" in words) == (columns == "110")
    assert max(map(len, lines)) <= int(columns)


def test_a_rule_that_differs_has_its_reason(call: Call) -> None:
    words = " ".join(call(*KEPT, "--only", "signal_sigio_holds_entry").stdout.split())
    assert " differs " in words
    assert "SIGIO has no entry in the limit" in words


def test_a_rule_that_was_not_asked_has_its_reason(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Rules not asked" not in call(*KEPT, "--only", "softirq").stdout
    monkeypatch.setattr(asked, "ask", lambda **_: {"syn_times": Answer(not_asked="no pipes here")})
    words = " ".join(call("validate", "rules", "--quick", "--only", "TCP timers").stdout.split())
    assert "Rules not asked" in words
    assert "no pipes here syn_times" in words
    assert "left out by --quick" in words


def test_the_time_of_all_rules_is_announced_for_all_of_them_only(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "ask", lambda **_: {})
    monkeypatch.setattr(asked, "this_machine", lambda: Source("9.9", "a command", {}))
    time = "asking Linux: all rules take 80 s, or some seconds with --quick\n"
    assert call("validate", "rules").stderr == time
    assert call("validate", "rules", "--only", "scans").stderr == "asking Linux\n"
    assert call("validate", "rules", "--quick").stderr == "asking Linux\n"


def test_a_page_holds_the_questions(call: Call, tmp_path: Path) -> None:
    result = call(*KEPT, "--only", "scans", "--output", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "out" / "rules.md").read_text()
    assert page.startswith("# The kernel's rules: Linux 6.18.44 and the simulator\n")
    assert "## select_order: agrees\n" in page
    assert "Which does select report" in page


@pytest.mark.parametrize("name", ["file", "file/out"])
def test_a_folder_that_cannot_be_written_is_refused_before_linux_is_asked(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def fail(**_: object) -> None:
        raise AssertionError("Linux was asked")

    monkeypatch.setattr(asked, "ask", fail)
    (tmp_path / "file").touch()
    result = call("validate", "rules", "--output", tmp_path / name)
    assert result.exit_code == 2
    assert result.stderr == (f"error: --output: must be a writable folder, got {tmp_path / name}\n")


def test_answers_are_kept_and_read_again(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"select_order": Answer([3, 2, 1])}
    monkeypatch.setattr(asked, "ask", lambda **_: answers)
    monkeypatch.setattr(asked, "this_machine", lambda: Source("9.9", "a command", {}))
    result = call("validate", "rules", "--keep", "--output", tmp_path)
    assert result.exit_code == 0, result.stderr
    assert kept(tmp_path / "linux-9.9.json") == answers
    assert "[3, 2, 1]" in result.stdout


def test_an_installed_library_keeps_nothing_in_itself(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_files, "is_checkout", lambda _: False)
    result = call("validate", "rules", "--keep")
    assert result.exit_code == 2
    assert "--keep: needs --output FOLDER" in result.stderr


def test_a_program_that_fails_is_said_in_a_sentence(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise ValueError("no pipes here")

    monkeypatch.setattr(asked, "ask", fail)
    result = call("validate", "rules")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "error: Linux cannot be asked: no pipes here"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("rules", "--only", "eppol"),
            '--only: must be a part of the name of a rule or of a family (did you mean "epoll"?)',
        ),
        (("rules", "scans", "--quick"), '"scans": `dispatchsim validate rules` takes no argument'),
        (("rules", "--kept", "2.2"), "--kept: must be one of 6.1.192-2, 6.18.44-fc"),
        (("rules", "--kept", "6.18.44", "--quick"), "--kept: must be absent where Linux is asked"),
        (("rules", "--keep", "--quick"), "--keep: must be absent unless all rules are asked"),
        (("rules", "--emulated", "--quick"), "--quick: must be absent with --emulated"),
        (("rules", "--workers", "2"), "--workers: unknown option of"),
        (
            ("rules", "--profile", "x"),
            "`dispatchsim validate machine`, `dispatchsim validate point` and",
        ),
        (("server", "x", "--emulated"), "it belongs to `dispatchsim validate rules`"),
        (
            ("rules", "--only", "syn_times", "--quick"),
            "Linux cannot be asked: --quick leaves out syn_times, which takes 4 s",
        ),
        (("rules", "--fast"), "it belongs to `dispatchsim validate papers`"),
        (("papers", "--emulated"), "it belongs to `dispatchsim validate rules`"),
    ],
)
def test_what_does_not_go_together_is_refused(
    call: Call, arguments: tuple[str, ...], words: str
) -> None:
    result = call("validate", *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
