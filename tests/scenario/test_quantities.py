"""Quantities carry their unit, exactly."""

from __future__ import annotations

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
    ],
)
def test_a_duration_is_exact(text: str, ns: int) -> None:
    assert parse_duration_ns(text) == ns


def test_powers_of_two_and_of_ten_are_told_apart() -> None:
    assert (parse_size_bytes("6 KiB"), parse_size_bytes("6 kB")) == (6144, 6000)


def test_rates_may_be_per_minute() -> None:
    assert parse_rate_per_s("90/min") == 1.5
    assert parse_bandwidth_bits_per_s("2.5 Gbit/s") == 2_500_000_000


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


@given(st.sampled_from(UNITS), st.text() | st.integers() | st.floats() | st.none())
def test_anything_is_a_quantity_or_a_quantity_error(unit: Unit, text: object) -> None:
    try:
        value = unit.parse(text)
    except QuantityError:
        return
    assert isinstance(value, Fraction)
