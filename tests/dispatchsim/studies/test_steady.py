"""Whether there is a steady state: what a run's series are, and what is said of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.pictures import check_picture

import dispatchsim as ds
from dispatchsim.calibration.running.preparation import job_of, record_job
from dispatchsim.studies.steady import series_of

from .small import scenario

LONG = {"duration": "1 s", "warm_up": "100 ms"}


def test_a_series_is_what_was_recorded(profile: ds.Profile) -> None:
    job = job_of(scenario(run={"duration": "50 ms", "warm_up": "0 s"}), profile, 1)
    series = series_of(job)
    _, outcome = record_job(job)
    assert (np.diff(series.intended_ns) >= 0).all()
    answered = outcome.done_ns >= 0
    assert sorted(series.latency_ns) == sorted((outcome.done_ns - outcome.intended_ns)[answered])
    for k in (0, 100, 499):
        at_ns = 50_000_000 * k // 500
        due = outcome.intended_ns <= at_ns
        over = (outcome.done_ns >= 0) & (outcome.done_ns <= at_ns)
        assert series.in_system[k] == np.count_nonzero(due & ~over)


def test_a_light_load_is_steady(profile: ds.Profile) -> None:
    answer = ds.steady(scenario("epoll_level", run=LONG), runs=5, profile=profile)
    assert answer.verdict is ds.Verdict.STABLE
    assert answer.growth.low < 0.01 * 5000
    assert answer.all_runs.low < answer.all_runs.estimate < answer.all_runs.high
    if answer.one_run is not None:
        assert answer.one_run.low < answer.all_runs.high
        assert answer.all_runs.low < answer.one_run.high
    assert answer.sentences[0].startswith("stable: ")
    check_picture(answer.plot())


def test_an_overload_has_no_steady_state(profile: ds.Profile) -> None:
    asked = scenario(load={"loop": "open", "rate": "90000/s"})
    answer = ds.steady(asked, runs=3, profile=profile)
    assert answer.verdict is ds.Verdict.OVERLOADED
    assert "there is no steady state" in answer.sentences[0]
    # Latencies grow to the end of the run: no point of truncation is better than the last.
    assert answer.warm_up_ns is None
    assert answer.one_run is None
    assert answer.sentences[1].startswith("warm-up: unknown from these runs, as ")


def test_a_warm_up_that_is_too_short_is_said(profile: ds.Profile) -> None:
    # A stall at the beginning is a transient that takes a while to be worked off.
    stall = {"kind": "stall", "at": "0 s", "length": "100 ms"}
    run = {"duration": "2 s", "warm_up": "10 ms"}
    asked = scenario("epoll_level", run=run, fault=[stall])
    answer = ds.steady(asked, runs=5, profile=profile)
    assert answer.warm_up_ns is not None
    assert 80_000_000 < answer.warm_up_ns < 400_000_000
    assert re.search(
        r"by MSER-5; run.warm_up = 10 ms is too short: use --set \"run.warm_up=\d+ ms\"$",
        answer.sentences[1],
    )


def test_what_cannot_be_told_is_said(profile: ds.Profile) -> None:
    with pytest.raises(ds.UserError, match="runs: must be at least 2, got 1"):
        ds.steady(scenario(), runs=1, profile=profile)
    with pytest.raises(ds.UserError, match="nothing in this scenario is random"):
        ds.steady(scenario(load={"loop": "closed", "users": 4}), profile=profile)
    late = {"loop": "open", "rate": "90000/s", "timeout": "1 ms"}
    with pytest.raises(ds.UserError, match="of the requests fail in some run"):
        ds.steady(scenario(load=late), runs=2, profile=profile)
