"""Percentiles of every rank are metrics: their names, and their values in a run."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import Engine, simulate
from dispatchsim.scenario.errors import UserError
from dispatchsim.scenario.metrics import ASKED_AS, METRICS, check_metric, metrics_of
from dispatchsim.scenario.percentiles import (
    ascending,
    ends_in_order,
    percentile_metric,
    percentile_of,
)
from dispatchsim.sim.figures.summary import Summary, summarise
from dispatchsim.sim.state.settings import RunSettings


@pytest.mark.parametrize(
    ("called", "name", "short"),
    [
        ("p95", "p95_ns", "p95"),
        ("p99.9", "p99_9_ns", "p99.9"),
        ("p99_9_ns", "p99_9_ns", "p99.9"),
        ("p999", "p99_9_ns", "p99.9"),
        ("p9999_answered", "p99_99_answered_ns", "p99.99_answered"),
        ("p097.50", "p97_5_ns", "p97.5"),
        ("p0.001", "p0_001_ns", "p0.001"),
        ("p20", "p20_ns", "p20"),
    ],
)
def test_a_percentile_has_one_name(called: str, name: str, short: str) -> None:
    found = METRICS[called]
    assert (found.name, found.short) == (name, short)
    assert ASKED_AS[called] == found
    assert METRICS.has(called)
    check_metric(name)


@pytest.mark.parametrize("name", ["p", "p1e1", "p9,5", "p-1", "p95_us", "p9_ns_ns", "p9\u00b2"])
def test_what_is_no_percentile_is_no_metric(name: str) -> None:
    assert percentile_of(name) is None
    assert not METRICS.has(name)
    with pytest.raises(UserError, match="must be a metric"):
        check_metric(name)


@pytest.mark.parametrize("rank", ["0", "0.0", "100", "100.0", "101", "995", "12345"])
def test_a_rank_is_above_0_and_below_100(rank: str) -> None:
    with pytest.raises(UserError) as caught:
        check_metric(f"p{rank.replace('.', '_')}_ns", "--metric")
    said = f"a percentile must be above 0 and below 100, got {rank}"
    assert str(caught.value) == f"--metric: p{rank.replace('.', '_')}_ns: {said}"


def of_a_run(engine: Engine) -> Summary:
    trace = arrivals(*range(0, 100_000, 1_000))
    run = RunSettings(duration_ns=2_000_000)
    return summarise(simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine=engine))


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_the_table_has_what_any_rank_would_say(engine: Engine) -> None:
    """The percentiles that each result has are computed once; all others when they are asked."""
    summary = of_a_run(engine)
    for name, metric in METRICS.items():
        known = percentile_of(name)
        if known is not None:
            assert metric.of(summary) == percentile_metric(known).of(summary)


def test_percentiles_are_those_of_numpy() -> None:
    summary = of_a_run("fast")
    assert summary.requests is not None
    latencies_ns = summary.requests.latency.order_statistics(range(100))
    for rank in ("0.5", "12.5", "37.25", "97.5", "99.99"):
        share = float(rank) / 100
        answered = METRICS[f"p{rank}_answered"].of(summary)
        assert answered == pytest.approx(np.quantile(latencies_ns, share))
        # Of all that were due: a value that one request has, as some may have waited for ever.
        assert METRICS[f"p{rank}"].of(summary) == latencies_ns[math.ceil(99 * share)]


@given(st.lists(st.decimals(0, 100, places=3), max_size=4))
def test_a_higher_rank_is_no_shorter_time(ranks: list[Decimal]) -> None:
    inside = sorted(rank for rank in ranks if 0 < rank < 100)
    values = [METRICS[f"p{rank:f}"].of(_SUMMARY) for rank in inside]
    assert values == sorted(values)


_SUMMARY = of_a_run("reference")


def test_other_percentiles_are_computed_where_they_are_asked() -> None:
    summary = _SUMMARY
    assert metrics_of(summary).keys() == METRICS.keys()
    asked = metrics_of(summary, ["p97_5_ns", "p99_ns"])
    assert asked.keys() - METRICS.keys() == {"p97_5_ns"}
    assert "requests" not in summary.to_dict()


RANKED = ("p50_ns", "p90_ns", "p95_ns", "p99_ns", "p99_9_ns")
ENDS = st.lists(st.floats(0, 1e12), min_size=len(RANKED), max_size=len(RANKED))


@given(ENDS, st.permutations(RANKED))
def test_single_values_of_percentiles_only_rise_to_be_in_order(
    values: list[float], names: list[str]
) -> None:
    given_values = dict(zip(names, values, strict=True))
    found = ascending(given_values)
    assert list(found) == names
    assert [found[name] for name in RANKED] == sorted(found.values())
    for i, name in enumerate(RANKED):
        assert found[name] == max(given_values[each] for each in RANKED[: i + 1])


def intervals(some: list[float], others: list[float]) -> dict[str, tuple[float, float]]:
    ends = [(min(pair), max(pair)) for pair in zip(some, others, strict=True)]
    return dict(zip(RANKED, ends, strict=True))


@given(ENDS, ENDS, st.permutations(RANKED))
def test_intervals_of_percentiles_are_in_order_of_rank(
    some: list[float], others: list[float], names: list[str]
) -> None:
    given_ends = intervals(some, others)
    found = ends_in_order({name: given_ends[name] for name in names})
    assert list(found) == names
    low, high = zip(*(found[name] for name in RANKED), strict=True)
    assert list(low) == sorted(low)
    assert list(high) == sorted(high)
    assert all(first <= last for first, last in found.values())
    assert ends_in_order(found) == found


@given(ENDS, ENDS, ENDS)
def test_intervals_that_hold_their_percentiles_hold_them_in_order_and_are_no_wider(
    some: list[float], others: list[float], true: list[float]
) -> None:
    truth = dict(zip(RANKED, sorted(true), strict=True))
    around = intervals(
        [min(pair) for pair in zip(some, truth.values(), strict=True)],
        [max(pair) for pair in zip(others, truth.values(), strict=True)],
    )
    for name, (low, high) in ends_in_order(around).items():
        assert around[name][0] <= low <= truth[name] <= high <= around[name][1]


def test_an_interval_far_below_cuts_the_upper_end_of_lower_ranks_alone() -> None:
    # p99 was forecast far too high: the lower end of p50 stays, whether p99 was asked or not.
    given_ends = {"p50_ns": (3.0, 9.0), "p90_ns": (4.0, 12.0), "p99_ns": (0.1, 8.0)}
    assert ends_in_order(given_ends) == {
        "p50_ns": (3.0, 8.0),
        "p90_ns": (4.0, 8.0),
        "p99_ns": (4.0, 8.0),
    }


def test_intervals_that_exclude_each_other_become_the_range_between_them() -> None:
    given_ends = {"p50_ns": (5.0, 6.0), "p99_ns": (1.0, 3.0), "p99_9_ns": (2.0, 9.0)}
    assert ends_in_order(given_ends) == {
        "p50_ns": (3.0, 5.0),
        "p99_ns": (3.0, 5.0),
        "p99_9_ns": (5.0, 9.0),
    }


def test_the_order_leaves_alone_what_is_no_percentile_of_its_kind() -> None:
    nan = float("nan")
    given_values = {
        "cpu_busy": 0.5,
        "p99_ns": 2.0,
        "p50_answered_ns": 9.0,
        "p50_ns": 3.0,
        "p95_ns": nan,
        "p99_answered_ns": 8.0,
        "throughput_per_s": 0.1,
    }
    found = ascending(given_values)
    ends = ends_in_order({name: (value, value + 2.0) for name, value in given_values.items()})
    assert math.isnan(found.pop("p95_ns"))
    assert all(map(math.isnan, ends.pop("p95_ns")))
    assert found == {
        "cpu_busy": 0.5,
        "p99_ns": 3.0,
        "p50_answered_ns": 9.0,
        "p50_ns": 3.0,
        "p99_answered_ns": 9.0,
        "throughput_per_s": 0.1,
    }
    assert ends == {
        "cpu_busy": (0.5, 2.5),
        "p99_ns": (3.0, 4.0),
        "p50_answered_ns": (9.0, 10.0),
        "p50_ns": (3.0, 4.0),
        "p99_answered_ns": (9.0, 10.0),
        "throughput_per_s": (0.1, 2.1),
    }
    unbounded = ends_in_order({"p50_ns": (1.0, math.inf), "p999_ns": (0.0, math.inf)})
    assert unbounded == {"p50_ns": (1.0, math.inf), "p999_ns": (1.0, math.inf)}
