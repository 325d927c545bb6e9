"""Single figures come from processes of their own; the queue on epoll is the queue."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dispatchsim.validation.benchmarks import single_figures
from dispatchsim.validation.benchmarks.contestants import FAST, run_engine
from dispatchsim.validation.benchmarks.plan import Plan, read_options
from dispatchsim.validation.benchmarks.queue_on_epoll import (
    SERVICE_NS,
    queue_scenario,
    run_queue_on_epoll,
)
from dispatchsim.validation.benchmarks.single_figures import (
    WARM_START,
    ChildError,
    SingleFigures,
    child,
    seconds_of,
)
from dispatchsim.validation.benchmarks.single_queue import Customers, draw_customers

GROWN = {"before_bytes": 1e8, "early_bytes": 2e8, "after_bytes": 3e8, "collected_bytes": 1e8}

# The queue on epoll


def lindley_ns(at_ns: list[int], service_ns: list[int]) -> list[int]:
    """Return when each customer leaves, first come, first served."""
    left_ns: list[int] = []
    free_ns = 0
    for arrived_ns, takes_ns in zip(at_ns, service_ns, strict=True):
        free_ns = max(free_ns, arrived_ns) + takes_ns
        left_ns.append(free_ns)
    return left_ns


@pytest.mark.parametrize("load", [0.7, 0.95])
def test_the_queue_on_epoll_is_first_come_first_served(load: float) -> None:
    scenario = queue_scenario(draw_customers(20_000, load, seed=3))
    outcome = run_engine(FAST, scenario).outcome
    assert outcome is not None
    # To the nanosecond: whatever the batches are, they are taken in the order of arrival.
    trace = scenario.trace
    assert outcome.intended_ns.tolist() == trace.at_ns.tolist()
    assert outcome.done_ns.tolist() == lindley_ns(trace.at_ns.tolist(), trace.reply_bytes.tolist())


def test_the_mean_is_in_the_seconds_of_the_customers() -> None:
    # One after the other: each takes its own service time.
    services = np.array([1.0, 2.0, 3.0])
    run = run_queue_on_epoll(Customers(np.full(3, 10.0), services))
    assert run.customers == 3
    assert run.mean_s == 2.0


def test_a_service_is_a_reply_of_at_least_64_bytes() -> None:
    scenario = queue_scenario(Customers(np.ones(2), np.array([1e-9, 1.0])))
    assert scenario.trace.reply_bytes.tolist() == [64, SERVICE_NS]


# Single figures


@pytest.mark.parametrize(
    ("name", "n", "keys"),
    [
        ("peak_memory", 5_000, {"peak_bytes"}),
        ("growth", 30, {"before_bytes", "early_bytes", "after_bytes", "collected_bytes"}),
        ("stream", 5_000, {"run_s", "replied", "peak_bytes"}),
    ],
)
def test_a_process_of_its_own_finds_figures(name: str, n: int, keys: set[str]) -> None:
    found = child(name, n)
    assert set(found) == keys
    assert all(value > 1e7 for key, value in found.items() if key.endswith("bytes"))
    assert found.get("replied", n) == pytest.approx(n, rel=0.1)


def test_a_failing_process_is_a_sentence() -> None:
    with pytest.raises(ChildError, match="no_such_figure 1: KeyError"):
        child("no_such_figure", 1)
    with pytest.raises(ChildError, match="ZeroDivisionError"):
        seconds_of("1 / 0", "x")
    with pytest.raises(ChildError, match="ended with 0 and said nothing"):
        seconds_of("pass", "x")


def test_a_start_ends_with_the_last_word() -> None:
    assert seconds_of("import time; time.sleep(0.2); print(1)", "x") > 0.2
    assert seconds_of(WARM_START, "epoll_level") > 0


def test_the_environment_of_a_start_can_be_changed() -> None:
    code = "import os, sys; sys.exit(os.environ.get(sys.argv[1]) != '7') or print(1)"
    with pytest.raises(ChildError):
        seconds_of(code, "SOME_VARIABLE")
    assert seconds_of("import os; print(os.environ['SOME_VARIABLE'])", "x", SOME_VARIABLE="7") > 0
    assert sys.executable


def test_every_single_figure_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "peak_memory": {"peak_bytes": 4.1e9},
        "growth": GROWN,
        "stream": {"run_s": 2.0, "replied": 3e6, "peak_bytes": 1e8},
    }
    monkeypatch.setattr(single_figures, "child", lambda name, _: found[name])
    monkeypatch.setattr(single_figures, "seconds_of", lambda *_: 1.25)
    monkeypatch.setattr(single_figures, "compilation_s", lambda _: 31.0)
    taken: list[None] = []
    single = SingleFigures(Plan())
    figures = {figure.name: figure for figure in single.measure(lambda: taken.append(None))}
    assert len(taken) == single.steps
    judged = {name: f.reached for name, f in figures.items() if f.reached is not None}
    assert judged == {
        "peak memory, 10,000,000 connections, 90% idle": False,
        "warm start: python -c to first result": True,
        "warm start: dispatchsim run epoll_10k_idle": True,
        **{
            f"first compilation of {name}, start to first result": False
            for name in ("select", "poll", "epoll_level")
        },
    }
    assert figures["stream of 3,000,000 connections: rate"].values == (1.5e6,)
    assert figures["memory after 1,000 short runs"].values == (2e8,)
    assert len(figures["warm start: python -c to first result"].values) == 5


def test_a_smaller_run_is_not_held_to_the_bound_of_the_large_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure = {"peak_bytes": 1.0, "run_s": 1.0, "replied": 1.0}
    monkeypatch.setattr(single_figures, "child", lambda *_: figure | GROWN)
    monkeypatch.setattr(single_figures, "seconds_of", lambda *_: 1.0)
    monkeypatch.setattr(single_figures, "compilation_s", lambda _: 1.0)
    first, *_ = SingleFigures(read_options(["--quick"]).plan).measure(lambda: None)
    assert first.name == "peak memory, 1,000,000 connections, 90% idle"
    assert first.reached is None
