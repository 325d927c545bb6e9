"""The command `import`: what other tools measured, shown, doubted, and kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from dispatchsim.calibration.observed.observed_run import read_observed

Call = Callable[..., Result]
PRINTED = Path(__file__).parents[2] / "calibration" / "observed" / "printed"


def test_runs_of_several_tools_are_one_table(call: Call, tmp_path: Path) -> None:
    output = tmp_path / "runs.jsonl"
    result = call(
        "import", PRINTED / "httperf_v.txt", PRINTED / "wrk_latency.txt", "--idle", "250",
        "--mechanism", "epoll_level", "--output", output,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "2,000/s" in result.stdout
    assert "unknown" in result.stdout
    assert "after a stall of 74 ms" in " ".join(result.stderr.split())
    first, second = read_observed(output).rows
    assert (first.server.mechanism, first.load.idle) == ("epoll_level", 250)
    assert second.load.users == 64


def test_json_has_the_verdict(call: Call) -> None:
    result = call("import", PRINTED / "wrk2.txt", "--rate", "2000/s", "--json")
    assert [run["verdict"] for run in json.loads(result.stdout)] == ["stable"]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["nothing.txt"], 'FILE: must be a file that exists, got "nothing.txt"'),
        ([PRINTED], "FILE: must be a file that exists, got the folder"),
        ([PRINTED / "wrk2.txt"], "wrk2.txt: wrk2 does not print its rate"),
        ([PRINTED / "wrk2.txt", "--rate", "fast"], "--rate: must be a rate such as"),
        ([PRINTED / "spectrum.hgrm", "--window", "3"], "--window: must be a duration such as"),
        (
            [PRINTED / "spectrum.hgrm", "--unit", "minutes"],
            "--unit: must be one of ns, us, ms, s, got",
        ),
        (
            [PRINTED / "wrk2.txt", "--mechanism", "epol"],
            '(did you mean "epoll"?), got "epol"',
        ),
        (
            [PRINTED / "wrk_plain.txt", "--output", "no/x.jsonl"],
            "--output: must be in an existing folder",
        ),
        ([PRINTED / "wrk2.txt", "--column", "p99=x"], "p99=COLUMN:UNIT"),
        ([PRINTED / "spectrum.hgrm", "--users", "3"], "values of a histogram have no unit"),
    ],
)
def test_what_is_missing_is_one_sentence(call: Call, arguments: list[object], rule: str) -> None:
    result = call("import", *arguments)
    assert result.exit_code == 2
    assert rule in " ".join(result.stderr.split())


def test_a_file_that_is_there_is_not_overwritten(call: Call, tmp_path: Path) -> None:
    output = tmp_path / "runs.jsonl"
    output.write_text("mine\n")
    result = call("import", PRINTED / "httperf_v.txt", "--output", output)
    assert result.exit_code == 2
    assert "--output: must be a new file" in result.stderr
    assert output.read_text() == "mine\n"
