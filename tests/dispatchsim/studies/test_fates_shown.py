"""What a user sees of connections that failed or have no end, and of SYNs without an answer."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from dispatchsim.command_line.rendering import print_result
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.studies.comparison import run


def crowded(**network: str) -> Scenario:
    """Return two runs of a server that is overwhelmed by clients without patience."""
    return Scenario.of(
        server={"mechanism": "epoll_level"},
        load={"loop": "open", "rate": "400000/s", "timeout": "5 ms"},
        network=network,
        run={"duration": "20 ms", "warm_up": "5 ms", "replications": 2, "engine": "reference"},
    )


def test_the_table_says_who_failed_and_who_has_no_end() -> None:
    result = run(crowded())
    summaries = [replication.summary for replication in result.replications]
    n_timeout, n_open = (sum(s.fates[kind] for s in summaries) for kind in ("timeout", "open"))
    assert n_timeout > 0
    assert n_open > 0
    assert all(sum(s.fates.values()) == s.offered for s in summaries)
    text = io.StringIO()
    print_result(Console(file=text, width=100), result)
    shown = text.getvalue()
    assert f"failed requests, in all replications together: {n_timeout:,} timeout\n" in shown
    assert f"unfinished at the end, in all replications together: {n_open:,} requests\n" in shown
    assert json.loads(json.dumps(summaries[0].to_dict()))["fates"] == summaries[0].fates


def test_the_answer_says_of_what_p99_is_where_nothing_was_served() -> None:
    busy = {"mechanism": "epoll_level", "request_cpu": "1 s"}
    load = {"loop": "open", "rate": "1000/s"}
    times = {"duration": "100 ms", "warm_up": "10 ms", "replications": 1, "engine": "reference"}
    silent = run(Scenario.of(server=busy, load=load, run=times)).sentence
    assert "overloaded: 0 of " in silent
    assert " ms (the time that requests have waited so far); the server's CPU" in silent
    assert "p99 infinite (more than 1% of requests failed); " in run(crowded()).sentence


@pytest.mark.parametrize(
    ("given", "linear", "first_s"),
    [("doubling", 0, 1), ("linear first", 4, 1), ("from 3 s", 0, 3)],
)
def test_syn_time_outs_are_those_of_a_kernel(given: str, linear: int, first_s: int) -> None:
    client = settings_of(crowded(syn_timeouts=given), 0, 1).client
    assert client.linear_syn_timeouts == linear
    assert client.syn_timeout_ns == first_s * 1_000_000_000
    assert settings_of(crowded(), 0, 1).client.linear_syn_timeouts == 0


def test_other_syn_time_outs_are_refused_by_name() -> None:
    with pytest.raises(ScenarioError, match=r"network\.syn_timeouts"):
        crowded(syn_timeouts="never")
