"""Old spellings: each works as the new one does, with one hint on standard error."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.made_up_profile import Call

from dispatchsim.command_line.old_spellings import UNTIL, renewed

RENEWED = [
    ("measure --anyway", "measure machine --anyway"),
    ("measure --quick --output m", "measure machine --quick --output m"),
    ("measure micro", "measure machine micro"),
    ("measure --output m flood", "measure flood --output m"),
    ("measure --server 'nginx -c x' --port 80", "measure server 'nginx -c x' --port 80"),
    ("measure --port 80 --server=nginx", "measure server --port 80 nginx"),
    ("measure --pid 5 --port 80", "measure server --pid 5 --port 80"),
    (
        "measure fit --steering far_end",
        "measure machine fit --steering client_machine",
    ),
    ("measure overload --steering=far_end", "measure overload --steering=client_machine"),
    ("calibrate m", "calibrate machine m"),
    ("calibrate a.jsonl --anyway", "calibrate server a.jsonl --anyway"),
    ("calibrate a b", "calibrate server a b"),
    ("validate m --draws 3", "validate machine m --cost-samples 3"),
    ("validate --draws 3 papers --fast", "validate papers --cost-samples 3 --fast"),
    ("validate --profile p --runs a --runs b", "validate server --profile p a b"),
    ("lab misses", "lab forecast-errors"),
    ("lab memory-prices --keep", "lab memory-costs --keep"),
    ("lab far-end", "lab client-machine"),
    ("lab interrupt-load m --figure f.png", "lab interrupt-load m --plot f.png"),
    ("sweep x --figure cpu_busy", "sweep x --metric cpu_busy"),
    ("run x --draws=3", "run x --cost-samples=3"),
]
KEPT = [
    "measure machine micro",
    "measure overload --quick",
    "measure --help",
    "measure",
    "calibrate",
    "validate",
    "validate rules --only overload",
    "validate papers",
    "run x --set load.rate=1/s",
    "lab overload m",
    "",
]


@pytest.mark.parametrize(("old", "new"), RENEWED)
def test_an_old_spelling_becomes_the_new_one(old: str, new: str) -> None:
    assert renewed(shlex.split(old)) == shlex.split(new)
    assert renewed(shlex.split(new)) == shlex.split(new)


@pytest.mark.parametrize("words", KEPT)
def test_a_new_spelling_is_kept(words: str) -> None:
    assert renewed(shlex.split(words)) == shlex.split(words)


def test_a_folder_of_observed_runs_is_of_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine/runs.jsonl").touch()
    assert renewed(["calibrate", "mine"]) == ["calibrate", "server", "mine"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("calibrate nowhere", "calibrate machine nowhere"),
        ("validate --runs nowhere --profile p", "validate server nowhere --profile p"),
        ("measure --server nginx", "measure server nginx"),
        ("lab memory-prices --output x", "lab memory-costs --output x"),
        ("run nowhere --draws 3", "run nowhere --cost-samples 3"),
    ],
)
def test_an_old_spelling_has_the_outcome_of_the_new_one_and_a_hint(
    call: Call, old: str, new: str
) -> None:
    before, after = (call(*shlex.split(each)) for each in (old, new))
    hint = (
        f"hint: the new spelling is `dispatchsim {new}`; "
        f"`dispatchsim {old}` is accepted until {UNTIL}\n"
    )
    assert before.stderr == hint + after.stderr
    assert (before.exit_code, before.stdout) == (after.exit_code, after.stdout)
