"""What httperf, wrk and wrk2 would have printed, from runs that can be followed by hand."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.recording.tool_reports import (
    Seen,
    _row,
    check_loop,
    seen_by_clients,
    tool_report,
)
from dispatchsim.scenario.errors import UserError
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS

OPEN = Scenario.of(server={"mechanism": "poll"}, load={"loop": "open", "rate": "100/s"})
CLOSED = Scenario.of(server={"mechanism": "poll"}, load={"loop": "closed", "users": 2})


def seen(trace: Trace, client: ClientSettings | None = None, **changes: Any) -> Seen:
    """Return what clients see of a server that works a millisecond for each request."""
    run = RunSettings(
        **changes.pop("server", on_server()),
        client=client or ClientSettings(),
        duration_ns=changes.pop("duration_ns", SECOND_NS),
        sample_every_ns=0,
    )
    costs = toy_costs("poll", application=ApplicationCosts(MILLISECOND_NS))
    outcome = simulate("poll", trace, costs, run, engine="reference")
    return seen_by_clients(outcome, (trace.request_bytes, trace.reply_bytes))


def numbers(report: str, pattern: str) -> list[float]:
    """Return the numbers in the line of *report* that begins with *pattern*."""
    (line,) = [text for text in report.splitlines() if text.strip().startswith(pattern)]
    found = re.findall(r"(?<![A-Za-z0-9])\d+(?:\.\d+)?", line[line.index(pattern) + len(pattern) :])
    return [float(number) for number in found]


def test_httperf_counts_connections_requests_and_replies() -> None:
    trace = arrivals(*range(0, 100 * MILLISECOND_NS, 10 * MILLISECOND_NS), requests=2)
    report = tool_report("httperf", OPEN, seen(trace))
    assert numbers(report, "Total:") == [10, 20, 20, 1.0]
    assert numbers(report, "Connection rate:") == [10.0, 100.0, 1]
    least, mean, most, middle, spread = numbers(report, "Connection time [ms]: min")
    assert 2.0 <= least <= middle <= most <= 2.1  # two requests of a millisecond each
    assert mean == pytest.approx(2.0, abs=0.05)
    assert spread == 0.0
    assert numbers(report, "Connection length [replies/conn]:") == [2.0]
    assert numbers(report, "Request size [B]:") == [64.0]
    assert numbers(report, "Reply size [B]: header") == [0.0, 128.0, 0.0, 128.0]
    assert "Reply status: 1xx=0 2xx=20 3xx=0 4xx=0 5xx=0" in report
    assert numbers(report, "Errors: total") == [0, 0, 0, 0, 0]


def test_httperf_files_each_failure_under_its_class() -> None:
    # One is served, two wait to be accepted, one is refused; the clients give up after 50 ms.
    server = on_server(backlog=1, accept_limit=1, read_after_accept=True, refuse=True)
    trace = arrivals(10_000, 20_000, 20_001, 30_000, 40_000)
    client = ClientSettings(timeout_ns=1_500_000, fd_limit=4)
    report = tool_report("httperf", OPEN, seen(trace, client, server=server))
    total, client_timo, socket_timo, refused, reset = numbers(report, "Errors: total")
    assert (socket_timo, refused, reset) == (0, 2, 0)
    assert client_timo == 2
    assert total == 4
    lost = seen(trace, ClientSettings(fd_limit=2))
    assert numbers(tool_report("httperf", OPEN, lost), "Errors: fd-unavail") == [3, 0, 0, 0]


def test_httperf_samples_its_reply_rate_every_five_seconds() -> None:
    at_ns = (np.arange(24) * SECOND_NS // 2).tolist()
    report = tool_report("httperf", OPEN, seen(arrivals(*at_ns), duration_ns=12 * SECOND_NS))
    assert numbers(report, "Reply rate [replies/s]: min") == [2.0, 2.0, 2.0, 0.0, 2]
    short = tool_report("httperf", OPEN, seen(arrivals(*at_ns), duration_ns=3 * SECOND_NS))
    assert numbers(short, "Reply rate [replies/s]: min") == [0.0, 0.0, 0.0, 0.0, 0]


def test_wrk_does_not_see_who_waits_to_send() -> None:
    # The SYN of the last one is lost twice over a full queue: it sends after three seconds.
    server = on_server(backlog=1, accept_limit=1, read_after_accept=True)
    trace = arrivals(10_000, 20_000, 20_001, 30_000)
    saw = seen(trace, server=server, duration_ns=10 * SECOND_NS)
    assert saw.due_latencies_ns.size == 4
    assert saw.due_latencies_ns.max() > SECOND_NS
    assert saw.sent_latencies_ns.max() < 4 * MILLISECOND_NS
    report = tool_report("wrk2", OPEN, saw)
    recorded, uncorrected = report.split("Uncorrected")
    assert re.search(r"100\.000% +1\.00s", recorded)
    assert re.search(r"100\.000% +\d\.\d\dms", uncorrected)


def test_wrk_prints_rates_latencies_and_socket_errors() -> None:
    trace = arrivals(*range(0, 500 * MILLISECOND_NS, 5 * MILLISECOND_NS), reply_bytes=1_024)
    report = tool_report("wrk", CLOSED, seen(trace))
    assert "  1 threads and 2 connections" in report
    assert "  100 requests in 1.00s, 100.00KB read" in report
    assert numbers(report, "Requests/sec:") == [100.0]
    assert "Socket errors" not in report
    assert re.search(r"99% +1\.00ms", report)
    late = seen(trace, ClientSettings(timeout_ns=900_000))
    assert "  Socket errors: connect 0, read 0, write 0, timeout 100" in tool_report(
        "wrk", CLOSED, late
    )


def test_lines_stand_in_the_columns_of_the_tools() -> None:
    # As wrk and wrk2 print them: print_stats(), print_units() and the last lines of main().
    assert _row("Latency", ["0.85ms", "0.98ms", "52.70ms"], 97.82) == (
        "    Latency     0.85ms    0.98ms  52.70ms   97.82%"
    )
    assert _row("Req/Sec", ["163.63", "53.31", "700.00"], 48.53) == (
        "    Req/Sec   163.63     53.31   700.00     48.53%"
    )
    trace = arrivals(*range(0, 500 * MILLISECOND_NS, 5 * MILLISECOND_NS), reply_bytes=1_024)
    lines = tool_report("wrk2", OPEN, seen(trace)).splitlines()
    assert " 50.000%    1.00ms" in lines
    assert "100.000%    1.00ms" in lines
    assert "Transfer/sec:    100.00KB" in lines
    assert "Requests/sec:    100.00" in lines


@pytest.mark.parametrize("tool", ["httperf", "wrk", "wrk2"])
def test_a_run_without_a_reply_is_reported_too(tool: str) -> None:
    nobody = seen(arrivals(10_000), ClientSettings(timeout_ns=500_000))
    scenario = CLOSED if tool == "wrk" else OPEN
    report = tool_report(tool, scenario, nobody)
    assert "nan" not in report


def test_a_tool_is_refused_the_load_that_it_cannot_make() -> None:
    with pytest.raises(UserError, match=r'wrk needs load.loop = "closed", got "open"'):
        check_loop("wrk", OPEN)
    for tool in ("httperf", "wrk2"):
        with pytest.raises(UserError, match=f'{tool} needs load.loop = "open", got "closed"'):
            check_loop(tool, CLOSED)
    client = Scenario.of(
        server={"mechanism": "poll"},
        load={"loop": "closed", "users": 2},
        machine={"role": "client"},
    )
    with pytest.raises(UserError, match="the clients are the tool"):
        check_loop("wrk", client)
