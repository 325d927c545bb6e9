"""What a service must keep: the words, and who keeps it."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dispatchsim as ds
from dispatchsim.scenario.metrics import ASKED_AS, METRICS
from dispatchsim.studies.objective import Clause, read_objective


def test_all_bounds_must_be_kept() -> None:
    objective = read_objective("p99 < 50 ms and errors < 0.1%, throughput > 90/s")
    kept = {"p99_ns": 50e6, "failed_share": 0.001, "throughput_per_s": 90.0}
    assert objective.is_met(kept)
    for figure, value in (
        ("p99_ns", 50e6 + 1),
        ("failed_share", 0.0011),
        ("throughput_per_s", 89.9),
        ("p99_ns", math.inf),
        ("throughput_per_s", math.nan),
    ):
        broken = objective.broken_by({**kept, figure: value})
        assert broken is not None
        assert broken.figure == figure


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("p99 <= 20 ms", "p99 < 20 ms"),
        ("p99≤20ms and errors<0.1 %", "p99 < 20 ms and errors < 0.1%"),
        ("p99.9 < 3msec", "p99.9 < 3 ms"),
        ("p999 < 3ms", "p99.9 < 3 ms"),
        ("p97.50 < 3ms and p95_ns < 1 ms", "p97.5 < 3 ms and p95 < 1 ms"),
        ("p97_5_answered < 3ms", "p97.5_answered < 3 ms"),
        ("throughput >= 2k/s", "throughput > 2,000/s"),
        ("throughput≥20/min", "throughput > 0.333333/s"),
        ("memory <= 2048 MiB", "memory < 2 GiB"),
    ],
)
def test_a_bound_is_understood_as_people_type_it(text: str, meant: str) -> None:
    assert str(read_objective(text)) == meant


def test_every_figure_of_an_objective_is_one_of_a_run() -> None:
    assert {metric.name for metric in ASKED_AS.values()} <= set(METRICS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r'objective: must look like "p99 < 50 ms and errors < 0.1%", got ""'),
        ("p99 < 5m", r'p99: must be either "5 min" \(minutes\) or "5 ms" \(milliseconds\)'),
        (
            "throughput > 20,000/s",
            r'must be without a comma: "20_000/s" for thousands, "20.000/s" for a fraction',
        ),
        ("p99 = 5 ms", "must look like"),
        ("pp99 < 5 ms", r'objective: pp99: unknown key \(did you mean "p99"'),
        ("p100 < 5 ms", "^objective: p100: a percentile must be above 0 and below 100, got 100$"),
        ("p0 < 5 ms", "^objective: p0: a percentile must be above 0 and below 100, got 0$"),
        ("p101.5_answered < 1 s", "p101.5_answered: a percentile must be .* below 100, got 101.5"),
        ("p99 < 50", 'objective: p99: must be a duration such as "50 ms"'),
        ("p99 < 0 ms", "objective: p99: must be above 0"),
        ("errors < 5 ms", "objective: errors: must be a share such as 0.1% or 0.001"),
        ("errors < 101%", r"must be a share of at most 1 \(100%\)"),
        ("throughput > 5", "objective: throughput: must be a rate"),
        ("memory < 8K", 'objective: memory: must be either "8 kB"'),
        ("p99 < 5 ms and", "must look like"),
    ],
)
def test_what_is_no_objective_is_said(text: str, message: str) -> None:
    with pytest.raises(ds.UserError, match=message):
        read_objective(text)


@given(st.text(alphabet="p9<>=. msanderoux%0123456789,", max_size=40))
def test_whatever_is_typed_is_an_objective_or_a_sentence(text: str) -> None:
    with contextlib.suppress(ds.UserError):
        found = read_objective(text)
        assert all(isinstance(clause, Clause) for clause in found.clauses)


@given(st.sampled_from(["p99", "errors"]), st.integers(1, 99))
def test_an_objective_reads_back_as_it_is_written(name: str, number: int) -> None:
    unit = " ms" if name == "p99" else "%"
    objective = read_objective(f"{name} < {number}{unit}")
    (again,) = read_objective(str(objective)).clauses
    assert math.isclose(again.bound, objective.clauses[0].bound)
