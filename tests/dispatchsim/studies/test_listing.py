"""`dispatchsim results`: one line a point, what differs, filters, files, and helpful errors."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.dispatchsim.store.made_up import record
from typer.testing import CliRunner, Result

from dispatchsim.command_line.app import app
from dispatchsim.scenario.errors import UserError
from dispatchsim.store import Record, Store
from dispatchsim.store.fragments import records_of, table_of
from dispatchsim.studies.listing import Condition, differing, matching, points_of


def row(number: int, rate: str, mechanism: str = "poll", seed: int = 1) -> Record:
    """Return the row of that *number*, at a rate."""
    scenario = {"load": {"loop": "open", "rate": rate}, "server": {"mechanism": mechanism}}
    return record(number)._replace(
        seed=seed,
        draw=None,
        mechanism=mechanism,
        scenario=json.dumps(scenario),
        figures={"p99_ns": 1e6 * number, "throughput_per_s": 1000.0 * number},
    )


ROWS = [
    row(1, "1000/s", seed=1),
    row(3, "1000/s", seed=2),
    row(5, "1000/s", seed=1)._replace(draw=0),
    row(4, "5000/s")._replace(verdict="overloaded"),
    row(6, "1000/s", mechanism="epoll_level"),
]

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function that calls `results` where the default store holds `ROWS`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Store(Path("dispatchsim-results")).add(ROWS)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["results", *arguments])

    return call


def test_a_line_a_point_says_what_differs(call: Call) -> None:
    lines = [line.split() for line in call().stdout.splitlines()]
    assert lines[0] == ["cost"]  # a head of two words has two lines
    assert lines[1] == [
        "mechanism", "load.rate", "p99_ns", "throughput_per_s", "replications",
        "samples", "verdict",
    ]  # fmt: skip
    assert sorted(lines[3:]) == [  # below the rule
        ["epoll_level", "1000/s", "6.00", "ms", "6,000", "1", "0", "stable"],
        ["poll", "1000/s", "2.00", "ms", "2,000", "2", "1", "stable"],
        ["poll", "5000/s", "4.00", "ms", "4,000", "1", "0", "overloaded"],
    ]


def test_a_narrow_line_has_the_fields_that_fit_and_names_the_others(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    rates = ("1000/s", "2000/s", "3000/s")
    idle = [{"idle": {"connections": n}} for n in (0, 10, 10)]
    load = [{"load": {"loop": "open", "rate": rate, "timeout": "50 ms"}} for rate in rates]
    load[0]["load"]["timeout"] = "60 ms"
    server = {"server": {"mechanism": "poll"}}
    rows = [
        row(10 + i, rates[i])._replace(scenario=json.dumps(load[i] | idle[i] | server))
        for i in range(3)
    ]
    Store(Path("mixed")).add(rows)
    told = call("mixed")
    assert told.stdout.split()[:4] == ["mechanism", "load.rate", "load.timeout", "p99_ns"]
    assert "further fields that differ: idle.connections (--columns shows those" in " ".join(
        told.stderr.split()
    )


@pytest.mark.parametrize(
    ("conditions", "numbers"),
    [
        (["server.mechanism=poll"], [1, 3, 4, 5]),
        (["mechanism != poll"], [6]),
        (["load.rate>2000/s"], [4]),
        (["load.rate=60000/min"], [1, 3, 5, 6]),
        (["load.rate=1k/s"], [1, 3, 5, 6]),
        (["throughput_per_s>4k"], [5, 6]),
        (["mechanism=epoll"], [6]),
        (["p99_ns<=3 ms"], [1, 3]),
        (["p99_ns<=3000000"], [1, 3]),
        (["throughput_per_s>3000", "verdict=stable"], [5, 6]),
        (["throughput_per_s>=4000/s"], [4, 5, 6]),
        (["run.duration=2500 ms"], [1, 3, 4, 5, 6]),
        (["server.busy=false", "seed=2"], [3]),
        (["draw=0"], [5]),
        (["load.users>3"], []),
        (["idle.connections<1"], [1, 3, 4, 5, 6]),
    ],
)
def test_conditions_leave_the_rows_that_are_meant(
    conditions: list[str], numbers: list[int]
) -> None:
    found = matching(ROWS, [Condition.parse(text) for text in conditions])
    assert sorted(int(row.figures["p99_ns"] / 1e6) for row in found) == numbers


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("load.rat=1", r'must name a field that a row has, got "load\.rat" \(did you mean "load\.'),
        ("xyzzy=1", r'got "xyzzy" \(keys of the scenario such as load\.rate, metrics such'),
        ("p99_ns<50 KiB", r'a number or a duration such as "50 ms".*got "50 KiB"'),
        ("load.rate<3 ms", r"load\.rate is a rate; compare it with a rate, such as load\.rate<"),
        ("poll", r"must be FIELD=VALUE or use !=, <, <=, > or >=, got 'poll'"),
        ("load.rate=", r"must be FIELD=VALUE"),
    ],
)
def test_a_condition_that_cannot_be_says_why(condition: str, message: str) -> None:
    with pytest.raises(UserError, match="--where: .*" + message):
        matching(ROWS, [Condition.parse(condition)])


def test_points_keep_versions_of_the_code_apart_and_tell_of_twins() -> None:
    twin = ROWS[0]._replace(address="0" * 64)
    points = points_of([*ROWS[:2], ROWS[0]._replace(address="1" * 64, code="new")])
    assert differing(points) == ["code"]
    assert [point.has_twins for point in points_of([ROWS[0], twin])] == [True]
    assert not any(point.has_twins for point in points_of(ROWS))


def test_columns_are_those_that_are_asked_for(call: Call) -> None:
    result = call("--where", "mechanism=poll", "--columns", "load.rate, seed,p99_ns")
    assert [word for word in result.stdout.split() if "─" not in word] == [
        *("cost", "mechanism", "load.rate", "seed", "p99_ns", "replications", "samples", "verdict"),
        *("poll", "1000/s", "1,", "2", "2.00", "ms", "2", "1", "stable"),
        *("poll", "5000/s", "1", "4.00", "ms", "1", "0", "overloaded"),
    ]
    assert (
        'must name a field that a row has, got "load.reat"' in call("--columns", "load.reat").stderr
    )


def test_json_has_everything(call: Call) -> None:
    content = json.loads(call("--json", "--where", "load.rate<2000/s").stdout)
    first = next(each for each in content if each["fields"]["mechanism"] == "poll")
    assert (first["seeds"], first["draws"], first["verdict"]) == ([1, 2], [0], "stable")
    assert first["estimates"]["p99_ns"]["mean"] == 2e6
    assert "must be absent with --json" in call("--json", "--columns", "seed").stderr


def test_rows_are_exported(call: Call) -> None:
    assert "4 of 5 rows are in out.csv" in call("--export", "out.csv", "--where", "seed=1").stderr
    with Path("out.csv").open() as file:
        exported = list(csv.DictReader(file))
    assert {line["p99_ns"] for line in exported} == {
        "1000000.0", "5000000.0", "4000000.0", "6000000.0"
    }  # fmt: skip
    assert "must end in .parquet, .csv or .json" in call("--export", "out.txt").stderr
    assert records_of(table_of(ROWS)) == sorted(ROWS, key=lambda row: row.address)


def test_a_store_that_holds_nothing_is_an_error(call: Call, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        (["nowhere"], "FOLDER: must be an existing folder, got nowhere; capacity, sweep"),
        (["empty"], "FOLDER: must hold results, got none in empty"),
        (["--where", "seed=77"], "--where: no row matches (of 5 in dispatchsim-results)"),
    ):
        result = call(*arguments)
        assert result.exit_code == 2
        assert message in result.stderr


def test_a_broken_fragment_is_told_of(call: Call) -> None:
    Path("dispatchsim-results/0123.parquet").write_text("mine")
    result = call()
    assert result.exit_code == 0
    assert "0123.parquet is incomplete" in result.stderr
    assert "0123.parquet" not in call().stderr
