"""The page's reverse proxy is a program that runs, and does what the page says of it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from dispatchsim.sim.state.kinds import Count, Status

FILE = Path(__file__).parents[2] / "docs/how-to/reverse_proxy.py"
QUERY_NS = 200_000
ROUND_TRIP_NS = 100_000


@pytest.fixture(scope="module")
def proxied() -> dict[str, Any]:
    """Return the names of the program when it has ended."""
    return runpy.run_path(str(FILE))


def test_it_is_about_forty_lines() -> None:
    lines = [line for line in FILE.read_text().splitlines() if line and '"""' not in line]
    assert len(lines) <= 40


def test_each_request_to_the_proxy_is_one_to_a_back_end(proxied: dict[str, Any]) -> None:
    n_front = proxied["proxy"].world.counts[Count.REPLIES]
    n_behind = [each.world.counts[Count.REPLIES] for each in proxied["back_ends"]]
    assert abs(n_behind[0] - n_behind[1]) <= 1
    assert n_front > 700
    assert 0 <= sum(n_behind) - n_front <= 32  # no more under way than the proxy has threads


def test_it_keeps_connections_to_back_ends(proxied: dict[str, Any]) -> None:
    n_accepts = [each.world.counts[Count.ACCEPTS] for each in proxied["back_ends"]]
    assert all(1 <= n <= 16 for n in n_accepts)
    assert all(each.is_open for kept in proxied["kept"] for each in kept)


def test_a_request_crosses_two_networks_and_waits_for_the_database(proxied: dict[str, Any]) -> None:
    outcome = proxied["proxy"].outcome()
    latencies_ns = (outcome.done_ns - outcome.intended_ns)[outcome.status == Status.REPLIED]
    assert latencies_ns.min() > 3 * ROUND_TRIP_NS + QUERY_NS  # two to the proxy, one behind it
    behind = proxied["back_ends"][0].summary().latency_ns
    assert behind.p50 > ROUND_TRIP_NS + QUERY_NS
