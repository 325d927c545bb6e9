"""What is varied: the words for it, the grid, the Latin hypercube."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dispatchsim as ds
from dispatchsim.studies.factors import (
    Factor,
    Range,
    Value,
    grid,
    latin_hypercube,
    points_of,
    read_factor,
)

from .small import scenario


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("load.rate=1k/s,2K/sec", ("1000/s", "2000/s")),
        ("idle.connections=0.5k,2k", (500, 2_000)),
        ("load.reply_size=8KB,64bytes", ("8 kB", "64 B")),
        ("network.up=1Gbps", ("1 Gbit/s",)),
        ("load.retry_jitter=50%", ("50%",)),
        ("load.reply_size=8K,8Kb", ("8K", "8Kb")),  # refused by the key, with its readings
        ("server.mechanism=epoll,threads", ("epoll_level", "blocking")),
        ("load.rate=1k/s..3k/s:3", ("1000/s", "2000/s", "3000/s")),
        ("idle.connections=0..2k:3", (0, 1_000, 2_000)),
        ("load.retry_jitter=10%..50%:3", ("10%", "30%", "50%")),
    ],
)
def test_values_are_read_as_people_type_them(text: str, values: tuple[Value, ...]) -> None:
    assert read_factor(text).values == values


@pytest.mark.parametrize(
    ("text", "field", "values"),
    [
        ("load.rate=1000/s,2000/s", "load.rate", ("1000/s", "2000/s")),
        ("load.rate=1000/s..4000/s:4", "load.rate", ("1000/s", "2000/s", "3000/s", "4000/s")),
        ("load.rate=1000/s..8000/s:4log", "load.rate", ("1000/s", "2000/s", "4000/s", "8000/s")),
        ("load.rate=1000..4000/s:2", "load.rate", ("1000/s", "4000/s")),
        ("load.rate=0.0000001/s..1234567/s:2", "load.rate", ("0.0000001/s", "1234567/s")),
        ("network.delay=10 us..1 ms:2", "network.delay", ("10 us", "1000 us")),
        ("network.delay=50 µs..1 ms:2", "network.delay", ("50 us", "1000 us")),
        ("network.delay=1 ms..100000 us:2", "network.delay", ("1000 us", "100000 us")),
        ("network.delay=1 ns..2 ns:3", "network.delay", ("1 ns", "2 ns")),
        ("idle.connections=0..10:3", "idle.connections", (0, 5, 10)),
        ("idle.connections=1..2:9", "idle.connections", (1, 2)),
        ("machine.busy_nice=0..1.5:2", "machine.busy_nice", (0.0, 1.5)),
        ("server.busy=true,false", "server.busy", (True, False)),
        ("server.mechanism = poll, select", "server.mechanism", ("poll", "select")),
    ],
)
def test_values_are_written_as_in_a_scenario(text: str, field: str, values: Any) -> None:
    assert read_factor(text) == Factor(field, values)


def test_values_of_a_text_are_texts_even_if_they_look_like_numbers() -> None:
    assert read_factor("machine.kernel=6.1,6.18") == Factor("machine.kernel", ("6.1", "6.18"))


def test_a_range_without_steps_is_drawn_from() -> None:
    assert read_factor("load.rate=1000/s..4000/s").range == Range(1000.0, 4000.0, "/s", False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("load.reply_size=8K..64K:4", r'must be either "8 kB" \(.*\) or "8 KiB" \(.*\), got "8K"'),
        ("load.rate", r"--vary: must be FIELD=VALUES such as .*, got \"load.rate\""),
        ("load.rate=1000/s..2000", "both ends must have their unit: write 1000/s..2000/s$"),
        ("load.rate=1000/s..2 ms", "must be the same kind of quantity, got /s and ms"),
        ("load.rat=1/s", r'--vary load.rat: unknown key \(did you mean "load.rate"\?\)'),
        ("server.cpus=8", r'server.cpus: unknown key \(did you mean "machine.cpus"\?\)'),
        ("lod.rate=1/s", r'lod.rate: unknown section "lod" \(did you mean "load"\?\)'),
        ("rte=1/s", r"must name SECTION.KEY of a scenario, got rte \(such as load.rate\)"),
        ("request_cpu=1us", r'got request_cpu \(did you mean "server.request_cpu"\?\)'),
        ("path.delay=1 ms", "path.delay: cannot be set here"),
        ("run.seed=1,2", "run.seed: cannot be set here; change run.seed"),
        ("load.rate=,", "must be values separated by commas"),
        ("load.rate=5/s..1/s:3", "must begin below its end, got 5/s..1/s"),
        ("load.rate=1/s..5/s:1", "must have 2 to 100000 steps, got 1"),
        ("idle.connections=0..5:3log", "a range in log steps must begin above 0"),
        ("load.rate=low..high:3", 'two numbers with their unit, got "low..high"'),
    ],
)
def test_what_cannot_be_varied_is_said(text: str, message: str) -> None:
    with pytest.raises(ds.UserError, match=message):
        read_factor(text)


@given(st.text(max_size=40) | st.from_regex(r"[a-z]+\.[a-z_]+=[0-9.,:/ slogu]*", fullmatch=True))
def test_whatever_is_typed_is_a_factor_or_a_sentence(text: str) -> None:
    with contextlib.suppress(ds.UserError):
        factor = read_factor(text)
        assert (factor.range is None) == bool(factor.values)


@given(
    st.floats(1e-3, 1e6),
    st.floats(1.001, 1e3),
    st.integers(2, 50),
    st.booleans(),
)
def test_steps_begin_and_end_where_they_say(low: float, times: float, n: int, is_log: bool) -> None:
    span = Range(low, low * times, "ms", False)
    values = [span.value(i / (n - 1), is_log=is_log) for i in range(n)]
    numbers = [float(str(value).removesuffix(" ms")) for value in values]
    # Six decimals are written.
    assert math.isclose(numbers[0], low, rel_tol=1e-5, abs_tol=1e-6)
    assert math.isclose(numbers[-1], low * times, rel_tol=1e-5, abs_tol=1e-6)
    assert numbers == sorted(numbers)


def test_a_grid_has_every_combination_once() -> None:
    factors = [read_factor("idle.connections=0,1,2"), read_factor("load.rate=1000/s,2000/s")]
    found = list(grid(factors))
    assert found[:3] == [
        {"idle.connections": 0, "load.rate": "1000/s"},
        {"idle.connections": 0, "load.rate": "2000/s"},
        {"idle.connections": 1, "load.rate": "1000/s"},
    ]
    assert len({repr(each) for each in found}) == len(found) == 6


def test_a_billion_points_are_refused_with_their_count() -> None:
    factors = [
        read_factor(f"{field}:1000")
        for field in ("load.rate=1/s..9/s", "idle.connections=0..9999", "server.backlog=1..4096")
    ]
    with pytest.raises(ds.UserError, match=r"1,000,000,000 points \(1000 .*--samples N"):
        next(iter(grid(factors)))


def test_a_field_is_named_once_and_a_range_needs_steps() -> None:
    twice = [read_factor("idle.connections=0,1")] * 2
    with pytest.raises(ds.UserError, match=r"got idle\.connections twice"):
        next(iter(grid(twice)))
    with pytest.raises(ds.UserError, match="a range without steps needs a number of samples"):
        next(iter(grid([read_factor("idle.connections=0..10")])))
    with pytest.raises(ds.UserError, match="must name at least one field"):
        next(iter(grid([])))


@given(st.integers(1, 40), st.integers(0, 1000))
def test_a_latin_hypercube_has_one_point_in_each_slice(n: int, seed: int) -> None:
    factors = [Factor("network.delay", range=Range(0.0, float(n), "ms", False))]
    factors.append(Factor("idle.connections", tuple(range(n))))
    found = list(latin_hypercube(factors, n, seed))
    delays = sorted(float(str(each["network.delay"]).removesuffix(" ms")) for each in found)
    assert all(i - 1e-3 <= delay <= i + 1 + 1e-3 for i, delay in enumerate(delays))
    assert sorted(each["idle.connections"] for each in found) == list(range(n))
    assert found == list(latin_hypercube(factors, n, seed))


def test_a_point_that_breaks_a_rule_is_named() -> None:
    factors = [read_factor("idle.connections=0,100"), read_factor("server.descriptors=50")]
    with pytest.raises(ds.ScenarioError, match=r"\(at idle.connections = 100, server.descriptors"):
        points_of(scenario(), grid(factors))


def test_equal_points_are_one() -> None:
    factor = Factor("idle.connections", (5, 5, 7))
    assert [p.scenario.idle.connections for p in points_of(scenario(), grid([factor]))] == [5, 7]


def test_every_draw_of_a_range_of_times_is_a_value_that_a_scenario_takes() -> None:
    levels = latin_hypercube([read_factor("network.delay=10 us..1 ms")], 50, seed=1)
    delays = [point.scenario.network.delay for point in points_of(scenario(), levels)]
    assert len(delays) == 50
    assert all(delay is not None and 10_000 <= delay <= 1_000_000 for delay in delays)
