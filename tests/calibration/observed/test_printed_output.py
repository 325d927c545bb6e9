"""What httperf, wrk and wrk2 printed: files of real runs, cut in all places, and our own reports.

`wrk2.txt` was written by the form that its source prints, the others by the tools themselves
(httperf 0.9.0, wrk 4.1.0), against nginx on loopback.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatchsim.calibration.observed.importing import Told, read_any
from dispatchsim.calibration.observed.observed_run import ObservedRun
from dispatchsim.calibration.observed.printed import is_httperf, read_httperf, read_wrk
from dispatchsim.calibration.records.measured_runs import DataError
from dispatchsim.sim.figures.summary import Verdict

PRINTED = Path(__file__).parent / "printed"
MILLISECOND_NS = 1e6
NOTHING = Told()


def read(name: str, told: Told = NOTHING) -> ObservedRun:
    (run,) = read_any(PRINTED / name, told)
    return run


def test_an_open_loop_of_httperf_that_was_kept_up_with() -> None:
    run = read("httperf_1000.txt")
    assert (run.load.loop, run.load.rate_per_s, run.load.requests) == ("open", 1000, 1)
    assert (run.offered, run.replied, run.errors) == (3000, 3000, {})
    assert run.window_ns == 3_001_000_000
    assert run.concurrent == 37
    assert run.latency_ns is not None
    assert run.latency_ns.since == "connect"
    assert run.latency_ns.mean == pytest.approx(7.3 * MILLISECOND_NS)
    assert run.latency_ns.quantiles["0.5"] == pytest.approx(4.5 * MILLISECOND_NS)
    assert run.latency_ns.max == pytest.approx(32.8 * MILLISECOND_NS)
    assert (run.load.timeout_ns, run.load.reply_bytes) == (2_000_000_000, 208)
    assert run.verdict is Verdict.STABLE


def test_several_requests_a_connection_are_counted_as_replies() -> None:
    run = read("httperf_v.txt")
    assert (run.load.requests, run.offered, run.replied) == (4, 6000, 24_000)
    assert run.throughput_per_s == pytest.approx(2000, rel=1e-3)


def test_what_httperf_could_not_offer_is_said_and_is_no_error_of_the_server() -> None:
    run = read("httperf_30000.txt")
    assert run.errors == {"descriptors": 52_632}
    assert run.offered == 60_000
    assert "52632 of 60000 connections were not tried" in run.doubts[0]
    assert "after a stall of 288 ms" in run.doubts[1]  # 8627 connections at 30,000/s
    assert run.verdict is Verdict.BACKLOGGED  # 198 ms went by after the last was due


def test_a_server_that_refuses_is_overloaded() -> None:
    run = read("httperf_refused.txt")
    assert run.errors == {"refused": 500}
    assert run.latency_ns is None
    assert run.verdict is Verdict.OVERLOADED
    assert any("no server listened" in doubt for doubt in run.doubts)


def test_a_closed_loop_of_wrk_cannot_tell_how_the_server_coped() -> None:
    run = read("wrk_latency.txt")
    assert (run.load.loop, run.load.users) == ("closed", 64)
    assert run.throughput_per_s == pytest.approx(75_118 / 3.07)
    assert run.latency_ns is not None
    assert run.latency_ns.since == "sent"
    assert run.latency_ns.quantiles["0.99"] == pytest.approx(21.17 * MILLISECOND_NS)
    assert run.verdict is None
    assert "at most 64 requests were open at once" in run.doubts[0]


def test_wrk_without_latency_has_a_mean_and_no_quantiles() -> None:
    run = read("wrk_plain.txt")
    assert run.latency_ns is not None
    assert run.latency_ns.quantiles == {}
    assert any("--latency" in doubt for doubt in run.doubts)


def test_wrk2_has_to_be_told_its_rate_and_takes_the_corrected_latencies() -> None:
    with pytest.raises(DataError, match=r"wrk2.txt: wrk2 does not print its rate .*--rate"):
        read("wrk2.txt")
    run = read("wrk2.txt", Told(rate_per_s=2000.0))
    assert (run.load.loop, run.load.users, run.load.rate_per_s) == ("open", 100, 2000)
    assert run.latency_ns is not None
    assert run.latency_ns.since == "intended"
    assert run.latency_ns.quantiles["0.999"] == pytest.approx(4.52 * MILLISECOND_NS)
    assert run.latency_ns.quantiles["1"] == pytest.approx(9.12 * MILLISECOND_NS)
    assert run.verdict is Verdict.STABLE


def test_wrk2_below_its_rate_is_past_the_capacity() -> None:
    run = read("wrk2.txt", Told(rate_per_s=4000.0))
    assert any("2000.09 replies a second of 4000 asked for" in doubt for doubt in run.doubts)
    assert run.verdict is None  # or its connections are too few: the output does not show it


@pytest.mark.parametrize(
    ("name", "told", "rule"),
    [
        ("wrk_refused.txt", Told(), "unable to connect"),
        ("wrk_plain.txt", Told(rate_per_s=100.0), "wrk has none"),
        ("httperf_1000.txt", Told(rate_per_s=100.0), "httperf prints its own rate"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(name: str, told: Told, rule: str) -> None:
    with pytest.raises(DataError, match=rf"(?s)^{name}: .*{rule}") as raised:
        read(name, told)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["httperf_1000.txt", "wrk_latency.txt", "wrk2.txt"])
def test_a_file_cut_anywhere_is_refused(name: str, tmp_path: Path) -> None:
    text = (PRINTED / name).read_text()
    told = Told(rate_per_s=2000.0) if name == "wrk2.txt" else Told()
    part = tmp_path / name
    for end in range(len(text.rstrip()) - 1):
        part.write_text(text[:end])
        with pytest.raises(DataError):
            read_any(part, told)


@given(st.text(), st.sampled_from(["httperf --rate=5\n", "Running 1s test @ \n", ""]))
def test_any_text_is_read_or_refused(text: str, head: str) -> None:
    for reader in (read_httperf, read_wrk):
        with pytest.raises(DataError):
            reader(head + text, "a file")


@settings(max_examples=400)
@given(st.sampled_from(sorted(PRINTED.glob("*.txt"))), st.data())
def test_a_changed_number_is_read_or_refused(path: Path, data: st.DataObject) -> None:
    text = path.read_text()
    at = data.draw(st.integers(0, len(text) - 1))
    changed = (
        text[:at] + data.draw(st.text(alphabet="0123456789.-enaif\n ", max_size=6)) + text[at + 1 :]
    )
    try:
        run = (
            read_httperf(changed, "a file") if is_httperf(changed) else read_wrk(changed, "a file")
        )
    except DataError:
        return
    assert run.window_ns > 0


@pytest.mark.parametrize(
    ("name", "number", "other"),
    [
        ("httperf_v.txt", "test-duration 11.999", "test-duration 1e300"),
        ("httperf_v.txt", "--rate=500", "--rate=1e-310"),
        ("httperf_v.txt", "client-timo 0", "client-timo " + "9" * 5000),
        ("httperf_v.txt", "connections 6000", "connections 1e308"),
        ("wrk_plain.txt", "42774 requests in 3.05s", "42774 requests in 9e9h"),
        ("wrk_plain.txt", "20.26ms", "9e99h"),
    ],
)
def test_numbers_beyond_all_bounds_are_refused(
    name: str, number: str, other: str, tmp_path: Path
) -> None:
    text = (PRINTED / name).read_text()
    assert number in text
    (tmp_path / name).write_text(text.replace(number, other, 1))
    with pytest.raises(DataError):
        read_any(tmp_path / name)
