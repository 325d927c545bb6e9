"""Tables of runs whose columns somebody else has named."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatchsim.calibration.observed.importing import Told, parse_columns, read_any
from dispatchsim.calibration.observed.observed_run import ObservedRun, read_observed
from dispatchsim.calibration.records.measured_runs import DataError, append
from dispatchsim.sim.figures.summary import Verdict

COLUMNS = (
    "mechanism=backend", "rate_per_s=offered", "throughput_per_s=ok", "window=len:s",
    "idle=parked", "p50=med:ms", "p999=tail:us", "error_timeout=lost", "busy_share=cpu",
)  # fmt: skip
TABLE = """backend,offered,ok,len,parked,med,tail,lost,cpu
epoll,1000,1000,10,250,0.4,2500,0,0.25
poll,"9,000",4000,10,0,20,900000,30000,1
"""


def table(
    tmp_path: Path, text: str = TABLE, columns: tuple[str, ...] = COLUMNS
) -> list[ObservedRun]:
    path = tmp_path / "runs.csv"
    path.write_text(text)
    return read_any(path, Told(columns=parse_columns(columns)))


def test_a_row_is_a_run(tmp_path: Path) -> None:
    first, second = table(tmp_path)
    assert first.server.mechanism == "epoll"
    assert (first.load.loop, first.load.rate_per_s, first.load.idle) == ("open", 1000, 250)
    assert (first.window_ns, first.offered, first.replied) == (10_000_000_000, 10_000, 10_000)
    assert first.latency_ns is not None
    assert first.latency_ns.quantiles == {"0.5": 400_000, "0.999": 2_500_000}
    assert first.busy_share == 0.25
    assert first.verdict is Verdict.STABLE
    assert second.offered == 90_000
    assert second.errors == {"timeout": 30_000}
    assert second.verdict is Verdict.OVERLOADED


def test_four_columns_of_numbers_are_no_histogram(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("offered,ok,len,med\n1000,10000,10,3\n")
    columns = parse_columns(("rate_per_s=offered", "replied=ok", "window=len:s", "p50=med:ms"))
    (run,) = read_any(path, Told(columns=columns))
    assert run.latency_ns is not None
    assert run.latency_ns.quantiles == {"0.5": 3e6}


def test_without_a_rate_it_is_a_closed_loop(tmp_path: Path) -> None:
    (run,) = table(tmp_path, "n,r,t\n64,500,2\n", ("users=n", "replied=r", "window=t:s"))
    assert (run.load.loop, run.load.users, run.replied) == ("closed", 64, 500)
    assert run.latency_ns is None


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        (("p99=lat",), "a time needs its unit, p99=COLUMN:UNIT"),
        (("p99=lat:min",), "one of ns, us, ms, s"),
        (("reply=r",), "unknown key .did you mean"),
        (("users",), "must be FIELD=COLUMN"),
        (("users=a", "users=b"), "users: must be named once"),
    ],
)
def test_a_wrong_mapping_is_refused(columns: tuple[str, ...], rule: str) -> None:
    with pytest.raises(DataError, match=rule):
        parse_columns(columns)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            TABLE.replace("offered", "off"),
            r": has no column .offered. .columns: backend, off, .*, as --column rate_per_s asks",
        ),
        (
            TABLE.replace("0.4", "fast"),
            r'2: med must be a number from 0 to 1e[+]12, got "fast"',
        ),
        (TABLE.replace("2500,0,0.25", "2500,0"), "line 2: the row is shorter than the head"),
        (TABLE.replace("0.25", "25"), r"line 2: busy_share: .*less than or equal to 1"),
        (TABLE.replace("0.4,2500", "4,2500"), "line 2: latency_ns: a higher quantile must not be"),
        (TABLE.partition("\n")[0], "the table has no rows"),
        (TABLE.replace(",10,250", ",,250"), "line 2: the length of the run is missing"),
        (TABLE.replace("1000,1000", "1e308,1000"), "line 2: offered must be a number from 0 to"),
        (TABLE.replace("epoll", "e" * 200_000), "is not a CSV table: field larger than"),
    ],
)
def test_a_wrong_value_names_line_and_column(tmp_path: Path, text: str, rule: str) -> None:
    with pytest.raises(DataError, match=r"^runs.csv.*" + rule):
        table(tmp_path, text)


def test_a_file_of_nobody_says_what_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("it was fast\n")
    with pytest.raises(DataError, match="must be the output of httperf, wrk or wrk2"):
        read_any(path)


def test_runs_are_kept_one_a_line(tmp_path: Path) -> None:
    runs = table(tmp_path)
    append(tmp_path / "observed.jsonl", *runs)
    assert read_observed(tmp_path / "observed.jsonl").rows == runs
    with (tmp_path / "observed.jsonl").open("a") as file:
        file.write('{"format":"dispatchsim-observed/1","source')
    loaded = read_observed(tmp_path / "observed.jsonl")
    assert loaded.rows == runs
    assert "line 3: torn" in loaded.notices[0]
