"""HdrHistogram's logs and spectra."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogWriter

from dispatchsim.calibration.observed.importing import Told, read_any
from dispatchsim.calibration.records.measured_runs import DataError

PRINTED = Path(__file__).parent / "printed"
RATE = Told(rate_per_s=100.0, unit="us")


def written_log(path: Path, *intervals: range) -> Path:
    """Write a log of one-second intervals, each with its values."""
    with path.open("w") as file:
        log = HistogramLogWriter(file)
        log.output_log_format_version()
        log.output_legend()
        for number, values in enumerate(intervals):
            histogram = HdrHistogram(1, 10_000_000, 3)
            for value in values:
                histogram.record_value(value)
            histogram.set_start_time_stamp(1_000_000 + 1000 * number)
            histogram.set_end_time_stamp(1_000_000 + 1000 * (number + 1))
            log.output_interval_histogram(histogram)
    return path


def test_intervals_of_a_log_are_one_distribution(tmp_path: Path) -> None:
    path = written_log(tmp_path / "run.hlog", range(1, 101), range(901, 1001))
    (run,) = read_any(path, RATE)
    assert (run.replied, run.offered, run.window_ns) == (200, 200, 2_000_000_000)
    assert run.latency_ns is not None
    assert run.latency_ns.quantiles["0.5"] == 100_000
    assert run.latency_ns.quantiles["0.99"] == pytest.approx(998_000, rel=1e-3)
    assert run.latency_ns.max == pytest.approx(1_000_000, rel=1e-3)
    assert run.latency_ns.mean == pytest.approx(500_500, rel=1e-3)


def test_a_log_does_not_say_its_unit_nor_its_clients(tmp_path: Path) -> None:
    path = written_log(tmp_path / "run.hlog", range(1, 101))
    with pytest.raises(DataError, match=r"no unit.*--unit, one of ns, us, ms, s"):
        read_any(path, Told(rate_per_s=100.0))
    with pytest.raises(DataError, match=r"either --rate .* or --users"):
        read_any(path, Told(unit="us"))
    (run,) = read_any(path, Told(users=4, unit="us"))
    assert run.load.loop == "closed"
    assert run.verdict is None


def test_a_log_that_was_cut_names_the_line(tmp_path: Path) -> None:
    path = written_log(tmp_path / "run.hlog", range(1, 101))
    text = path.read_text()
    for end in (len(text) - 3, len(text) - 30, text.rindex(",") + 2):
        path.write_text(text[:end])
        with pytest.raises(DataError, match=r"^run.hlog line \d+: "):
            read_any(path, RATE)


def test_a_payload_that_fills_the_memory_is_refused(tmp_path: Path) -> None:
    cookie = bytes.fromhex("1c849314")  # of a compressed histogram
    bomb = base64.b64encode(cookie + bytes(4) + zlib.compress(bytes(64 << 20))).decode()
    path = tmp_path / "bomb.hlog"
    path.write_text(f"0.0,1.0,1.0,{bomb}\n")
    with pytest.raises(DataError, match="unpacks to more than 8 MiB"):
        read_any(path, RATE)


def test_a_spectrum_of_percentiles() -> None:
    told = Told(rate_per_s=100.0, unit="ms", window_ns=10_000_000_000)
    (run,) = read_any(PRINTED / "spectrum.hgrm", told)
    assert run.replied == 1000
    assert run.latency_ns is not None
    assert run.latency_ns.quantiles["0.9"] == 900_000
    assert run.latency_ns.quantiles["0.99"] == 1_500_000  # the first row at or above
    assert run.latency_ns.quantiles["0.999"] == 2_000_000
    with pytest.raises(DataError, match="holds no recording time: give --window"):
        read_any(PRINTED / "spectrum.hgrm", told.__class__(rate_per_s=100.0, unit="ms"))


def test_a_spectrum_without_its_foot_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.hgrm"
    path.write_text((PRINTED / "spectrum.hgrm").read_text().partition("#[Max")[0])
    with pytest.raises(DataError, match=r"no foot with Max and Total count"):
        read_any(path, Told(rate_per_s=1.0, unit="ms", window_ns=1))
