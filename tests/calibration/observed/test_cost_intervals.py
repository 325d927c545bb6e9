"""Intervals hold what they promise, and a further run shrinks them by what was foreseen."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dispatchsim.calibration.observed.cost_intervals import (
    EXPECTED,
    EXPECTED_DEGREES,
    Kind,
    half_widths,
    next_run,
    scatter_of,
)

REQUEST_NS, CONNECTION_NS = 9_000.0, 14_000.0
MACHINE_NS = {1: 30_000.0, 100: 8_000.0}
EXPERIMENTS = 2_000


def reply_ns(requests: int) -> float:
    return MACHINE_NS[requests] + REQUEST_NS + CONNECTION_NS / requests


def shares_held(n_runs: int, scatter: float | None) -> tuple[float, float]:
    """Return how often the intervals hold the truth; None: at scatters as they are expected."""
    rng = np.random.default_rng(1)
    held = np.zeros(2)
    for _ in range(EXPERIMENTS):
        expected = EXPECTED * math.sqrt(EXPECTED_DEGREES / rng.chisquare(EXPECTED_DEGREES))
        cv = expected if scatter is None else scatter
        groups = {n: 1e9 / reply_ns(n) * (1 + cv * rng.standard_normal(n_runs)) for n in MACHINE_NS}
        kinds = [Kind(n, 1e9 / float(np.median(rates)), n_runs) for n, rates in groups.items()]
        widths = half_widths(kinds, scatter_of([list(rates) for rates in groups.values()]))
        whole, kept = (kind.reply_ns - MACHINE_NS[kind.requests] for kind in kinds)
        connection_ns = (whole - kept) / (1 - 1 / 100)
        held += (
            abs(whole - connection_ns - REQUEST_NS) <= widths.request_ns,
            abs(connection_ns - CONNECTION_NS) <= widths.connection_ns,
        )
    request, connection = held / EXPERIMENTS
    return float(request), float(connection)


@pytest.mark.parametrize("n_runs", [1, 2, 3, 5])
def test_intervals_of_95_percent_hold_the_costs_in_95_percent_of_all_cases(n_runs: int) -> None:
    for share in shares_held(n_runs, None):
        assert 0.93 <= share <= 0.975


def test_runs_that_scatter_more_than_expected_need_repeats() -> None:
    assert min(shares_held(2, EXPECTED)) >= 0.95
    assert min(shares_held(1, 2 * EXPECTED)) < 0.9
    assert min(shares_held(10, 2 * EXPECTED)) > 0.92


def test_one_kind_of_runs_does_not_tell_a_connection_from_a_request() -> None:
    widths = half_widths([Kind(1, reply_ns(1), 3)], scatter_of([[1.0, 1.01, 0.99]]))
    assert math.isfinite(widths.request_ns)
    assert math.isinf(widths.connection_ns)


def test_the_first_run_of_another_kind_tells_more_than_any_repeat() -> None:
    found = next_run([Kind(1, reply_ns(1), 3)], scatter_of([[1.0, 1.01, 0.99]]), {100: 17_000.0})
    assert found.requests == 100
    assert math.isfinite(found.after.connection_ns)


def test_of_two_kinds_a_repeat_of_that_which_is_known_worse_tells_most() -> None:
    scatter = scatter_of([[1.0, 1.01, 0.99], [1.0]])
    kinds = [Kind(1, reply_ns(1), 1), Kind(100, reply_ns(100), 5)]
    found = next_run(kinds, scatter)
    assert found.requests == 1
    after = half_widths(
        [kinds[0]._replace(n_runs=2), kinds[1]], scatter._replace(n_repeats=scatter.n_repeats + 1)
    )
    assert found.after == after
    assert found.shrinks_ns == pytest.approx(sum(found.before) - sum(after))
