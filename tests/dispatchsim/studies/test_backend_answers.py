"""What the answers say of a backend: that it decides, and what it comes to."""

from __future__ import annotations

import math
from typing import Any

import pytest

import dispatchsim as ds
from dispatchsim.command_line.rendering import rows_shown
from dispatchsim.studies.waiting import bottleneck

RUN = {"duration": "1 s", "warm_up": "400 ms", "replications": 1, "engine": "fast"}
FULL = {"backend_full": 0.98, "backend_working": 8.0, "backend_waiting": 3.0}


def scenario(rate: str, **backend: Any) -> ds.Scenario:
    """Return a server whose backend takes 20 ms."""
    return ds.Scenario.of(
        server={"mechanism": "epoll"},
        load={"loop": "open", "connections": 500, "rate": rate},
        backend={"delay": "20 ms"} | backend,
        run=RUN,
    )


def test_a_result_names_a_backend_that_is_busy() -> None:
    result = ds.run(scenario("800/s", connections=64, limit=8), draws=0)
    words = "the backend is full 100.0% of the time: 8 requests at once, 20 ms each, allow 400 "
    words += "requests/s"
    assert result.sentence.endswith(words)
    assert result.verdict is ds.Verdict.OVERLOADED
    assert result.estimates["backend_full"].mean == 1
    assert result.estimates["throughput_per_s"].mean == pytest.approx(400, rel=0.02)
    # Each connection has a query there: 8 are worked on, and 56 wait.
    assert result.estimates["backend_waiting"].mean == pytest.approx(56, abs=1)
    assert result.estimates["backend_mean_ns"].mean == pytest.approx(64 / 400 * 1e9, rel=0.05)


def test_the_time_at_a_backend_is_that_of_replies_that_left_it() -> None:
    slow = scenario("100/s", connections=300, delay="900 ms")
    assert ds.run(slow, draws=0).estimates["backend_mean_ns"].mean == 900e6
    none = slow.with_values(run={"duration": "800 ms"})
    assert math.isnan(ds.run(none, draws=0).estimates["backend_mean_ns"].mean)


def test_connections_to_a_backend_are_named_where_they_are_the_bound() -> None:
    result = ds.run(scenario("800/s", connections=8), draws=0)
    assert "; connections to the backend are 9" in result.sentence
    assert result.sentence.endswith("8 requests at once, 20 ms each, allow 400 requests/s")


def test_a_backend_with_time_to_spare_is_not_named() -> None:
    result = ds.run(scenario("200/s", connections=64, limit=8), draws=0)
    assert "backend" not in result.sentence
    assert result.verdict is ds.Verdict.STABLE


def test_only_some_requests_need_it() -> None:
    some = scenario("200/s", connections=64, limit=8, share=0.25)
    says = bottleneck(some, {**FULL, "link_busy": 0.0, "cpu_busiest": 0.3})
    assert says.endswith(" 20 ms each, allow 1,600 requests/s if 25.0% of them need it")


def test_the_busiest_of_all_is_named() -> None:
    asked = scenario("200/s", connections=64, limit=8)
    full = bottleneck(asked, {**FULL, "link_busy": 0.95, "cpu_busiest": 0.5})
    assert full.startswith("the backend is full 98.0% of the time: 8 requests at once, ")
    both = {**FULL, "backend_working": 7.4, "link_busy": 0.98}
    assert bottleneck(asked, {**both, "cpu_busiest": 0.5}) == "the link is 98.0% busy"
    # Where a CPU is busier, it decides; what is less than 90% busy does not.
    assert bottleneck(asked, {**both, "cpu_busiest": 0.99}) == ""
    spare = {**FULL, "backend_working": 7.1, "link_busy": 0.85, "cpu_busiest": 0.5}
    assert bottleneck(asked, spare) == ""
    # Connections that are fewer than the backend works on are the bound before it.
    few = scenario("200/s", connections=4, limit=8)
    taken = {**FULL, "backend_working": 3.9, "backend_waiting": 0.0, "link_busy": 0.0}
    says = bottleneck(few, {**taken, "cpu_busiest": 0.5})
    assert says.startswith("connections to the backend are 97.5% busy: 4 requests at once, ")


def test_a_result_names_a_full_link() -> None:
    load = {"loop": "open", "connections": 500, "rate": "2000/s", "reply_size": "100 kB"}
    asked = ds.Scenario.of(
        server={"mechanism": "epoll"}, load=load, network={"down": "1 Gbit/s"}, run=RUN
    )
    assert ds.run(asked, draws=0).sentence.endswith("; the link is 100.0% busy")


def test_a_table_has_rows_of_a_backend_where_there_is_one() -> None:
    def rows(**backend: Any) -> set[str]:
        return {name for name in rows_shown(scenario("200/s", **backend), []) if "backend" in name}

    without_limit = {"backend_working", "backend_in_line", "backend_mean_ns"}
    assert rows(connections=4) == without_limit
    assert rows(connections=4, limit=2) == without_limit | {"backend_full", "backend_waiting"}
    plain = ds.Scenario.of(server={"mechanism": "epoll"}, load={"loop": "open", "rate": "200/s"})
    assert not any(name.startswith("backend") for name in rows_shown(plain, []))


def test_capacity_names_a_backend_that_is_busier_than_the_cpus() -> None:
    start = scenario("100/s", connections=64, limit=8)
    found = ds.capacity(start, "p99 < 60 ms", replications=1, precision=0.05)
    assert found.high < 450
    assert "where the backend is full" in found.sentence
    assert "8 requests at once, 20 ms each, allow 400 requests/s" in found.sentence
    assert found.past is None
