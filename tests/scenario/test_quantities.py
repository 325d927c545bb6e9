"""Quantities carry their unit, exactly."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.scenario.quantities import (
    BANDWIDTH,
    DURATION,
    RATE,
    SIZE,
    QuantityError,
    Unit,
    parse_bandwidth_bits_per_s,
    parse_duration_ns,
    parse_rate_per_s,
    parse_size_bytes,
    read_count,
    read_number,
    read_percentage,
)

UNITS = [DURATION, SIZE, RATE, BANDWIDTH]


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("50 ms", 50_000_000),
        ("1.5 s", 1_500_000_000),
        ("0.1s", 100_000_000),
        ("10_000 ns", 10_000),
        ("50 µs", 50_000),
        ("50 μs", 50_000),
        ("50us", 50_000),
        ("50 usec", 50_000),
        ("50 µsec", 50_000),
        ("7 msec", 7_000_000),
        ("2 sec", 2_000_000_000),
        ("2seconds", 2_000_000_000),
        ("1 minute", 60_000_000_000),
        ("1 hr", 3_600_000_000_000),
    ],
)
def test_a_duration_is_exact(text: str, ns: int) -> None:
    assert parse_duration_ns(text) == ns


def test_powers_of_two_and_of_ten_are_told_apart() -> None:
    assert (parse_size_bytes("6 KiB"), parse_size_bytes("6 kB")) == (6144, 6000)


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("8 KB", 8_000), ("8kB", 8_000), ("8 KiB", 8_192), ("64 bytes", 64), ("1.5MB", 1_500_000)],
)
def test_a_size_is_in_powers_of_ten_unless_it_says_two(text: str, n_bytes: int) -> None:
    assert parse_size_bytes(text) == n_bytes


@pytest.mark.parametrize(
    ("text", "per_s"),
    [
        ("90/min", 1.5),
        ("20k/s", 20_000),
        ("20K/s", 20_000),
        ("20 k/sec", 20_000),
        ("1.5M/s", 1_500_000),
        ("61_000/s", 61_000),
        ("0.5k/s", 500),
        ("3.6k/hour", 1.0),
    ],
)
def test_a_rate_may_be_in_thousands_and_per_minute(text: str, per_s: float) -> None:
    assert parse_rate_per_s(text) == per_s


@pytest.mark.parametrize(
    ("text", "bits_per_s"),
    [
        ("2.5 Gbit/s", 2_500_000_000),
        ("10 Gb/s", 10_000_000_000),
        ("10Gbps", 10_000_000_000),
        ("10gbps", 10_000_000_000),
        ("10Gb", 10_000_000_000),
        ("100 Mb/s", 100_000_000),
        ("100 Mbps", 100_000_000),
        ("100 mbit", 100_000_000),
        ("56 kb/s", 56_000),
        ("56Kbps", 56_000),
        ("9600 bps", 9_600),
    ],
)
def test_a_bandwidth_is_in_bits(text: str, bits_per_s: int) -> None:
    assert parse_bandwidth_bits_per_s(text) == bits_per_s


@pytest.mark.parametrize(
    ("unit", "text", "rule"),
    [
        (DURATION, "5m", 'either "5 min" (minutes) or "5 ms" (milliseconds)'),
        (SIZE, "8K", 'either "8 kB" (powers of 1000) or "8 KiB" (powers of 1024)'),
        (SIZE, "1.5 M", 'either "1500 kB" (powers of 1000) or "1536 KiB" (powers of 1024)'),
        (SIZE, "8 Kb", 'either "8 kB" (bytes) or "1 kB" (bits)'),
        (SIZE, "16 mb", 'either "16 MB" (bytes) or "2 MB" (bits)'),
        (BANDWIDTH, "10 GBps", 'either "80 Gbit/s" (bytes) or "10 Gbit/s" (bits)'),
        (BANDWIDTH, "10 GB/s", 'either "80 Gbit/s" (bytes) or "10 Gbit/s" (bits)'),
        (BANDWIDTH, "100 mb/s", 'either "800 Mbit/s" (bytes) or "100 Mbit/s" (bits)'),
        (RATE, "61,000/s", 'without a comma: "61_000/s" for thousands, "61.000/s" for a fraction'),
        (RATE, "1,061,000/s", 'without a comma, such as "1_061_000/s"'),
        (DURATION, "5,5 ms", 'without a comma, such as "5.5 ms"'),
    ],
)
def test_what_has_two_readings_is_refused_with_both(unit: Unit, text: str, rule: str) -> None:
    with pytest.raises(QuantityError) as caught:
        unit.parse(text)
    assert str(caught.value) == f'must be {rule}, got "{text}"'
    for reading in re.findall(r'"(.+?)"', rule):
        unit.parse(reading)


def test_a_number_has_one_spelling_once_it_is_read() -> None:
    assert read_number("1.5k") == ("1500", "")
    assert read_number("20 K") == ("20000", "")
    assert read_number("0.0125M/sec") == ("12500", "/s")
    assert read_number("1.0005k") == ("1000.5", "")
    assert read_number("50%") == ("50", "%")
    assert read_number("5 qs") == ("5", "qs")  # no unit, but said to be one


def test_counts_and_shares_may_be_texts() -> None:
    assert (read_count("20k"), read_count("1.5M"), read_count("0.001k")) == (20_000, 1_500_000, 1)
    assert (read_percentage("50%"), read_percentage("0.1 %")) == (0.5, 0.001)


@pytest.mark.parametrize("text", ["", "20", "1.0005k", "20kk", "20k/s", "50%", "k", "2,0"])
def test_a_count_is_whole(text: str) -> None:
    with pytest.raises(QuantityError, match=r'^must be a whole number \(4, 20000 or "20k"\), got'):
        read_count(text)


def test_a_count_has_no_comma() -> None:
    with pytest.raises(QuantityError, match=r"^must be without a comma, such as 20_000, got"):
        read_count("20,000")


@pytest.mark.parametrize("text", ["50", 50, 50.0, True, None, "", "ms", "50 mS", "5e3 ms", "٣ ms"])
def test_what_is_no_duration_is_named_with_what_is_expected(text: object) -> None:
    with pytest.raises(QuantityError, match=r'must be a duration such as "50 ms".*got'):
        parse_duration_ns(text)


def test_a_wrong_unit_is_an_error() -> None:
    with pytest.raises(QuantityError, match=r"units: B, kB, .*, got \"5 ms\""):
        parse_size_bytes("5 ms")


def test_a_negative_duration_is_called_that() -> None:
    with pytest.raises(QuantityError, match='must not be negative, got "-5 ms"'):
        parse_duration_ns("-5 ms")


def test_a_part_of_a_nanosecond_is_refused() -> None:
    with pytest.raises(QuantityError, match="whole number of ns"):
        parse_duration_ns("0.5 ns")


@given(st.sampled_from(UNITS), st.integers(0, 10**18))
def test_a_whole_quantity_is_written_as_it_is_read(unit: Unit, value: int) -> None:
    assert unit.parse(unit.format(value)) == value


@given(st.floats(1e-6, 1e9))
def test_a_rate_is_written_as_it_is_read(per_s: float) -> None:
    assert parse_rate_per_s(RATE.format(per_s)) == pytest.approx(per_s, rel=1e-15)


DIGITS = st.from_regex(r"-?[0-9]{1,4}([.,_][0-9]{1,4})?", fullmatch=True)
ENDS = st.sampled_from([each for unit in UNITS for each in (*unit.spellings, *unit.ambiguous)])


@given(
    st.sampled_from(UNITS),
    st.text()
    | st.integers()
    | st.floats()
    | st.none()
    | st.tuples(DIGITS, st.sampled_from(["", " ", "k", " M"]), ENDS).map("".join),
)
def test_anything_is_a_quantity_or_a_quantity_error(unit: Unit, text: object) -> None:
    try:
        value = unit.parse(text)
    except QuantityError:
        return
    assert isinstance(value, Fraction)
    assert unit.parse(unit.format(value)) == pytest.approx(value, rel=1e-15)


@given(st.text() | st.tuples(DIGITS, st.sampled_from(["k", "K", "M", "%", "k%"])).map("".join))
def test_anything_is_a_count_or_a_share_or_a_quantity_error(text: str) -> None:
    for read, kind in ((read_count, int), (read_percentage, float)):
        try:
            assert isinstance(read(text), kind)
        except QuantityError:
            continue
