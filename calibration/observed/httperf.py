"""What httperf prints, version 0.9: an open loop of connections, each with some requests.

Its latencies are no distribution: of connections there are median and mean, from the begin of
connect() to the close. Connections that failed are not among them.

Source: httperf(1), "OUTPUT"; Mosberger and Jin 1998, "httperf: a tool for measuring web server
performance".
"""

from __future__ import annotations

import re
from typing import Any

from ...sim.state.units import SECOND_NS
from ..records.measured_runs import DataError
from .observed_run import ErrorName, ObservedRun, observed_run
from .printed import NUMBER, TIME_NS_MAX, Printed

_MILLISECOND_NS = 1e6
_TABLE_FULL = 0.95
_FD_SETSIZE = 1024
_STILL_S = 0.05
_SLOW = 0.97
_RATE_MIN = 0.001
_ERRORS: dict[str, ErrorName] = {
    "client-timo": "timeout",
    "socket-timo": "dropped",
    "connrefused": "refused",
    "connreset": "reset",
    "fd-unavail": "descriptors",
    "addrunavail": "ports",
    "ftab-full": "descriptors",
    "other": "reset",
}


def is_httperf(text: str) -> bool:
    """Return whether *text* looks like the output of httperf."""
    return re.search(r"^httperf .*--", text, re.MULTILINE) is not None


def read_httperf(text: str, where: str) -> ObservedRun:
    """Return the run that httperf told of in *text*; *where* begins the message of an error.

    Raises
    ------
    DataError
        If a line is missing that all versions print, or the options are not those of an open loop
        of connections.
    """
    told = Printed(text, where, "httperf")
    command = told.find(r"^httperf (?!: ).*--.*$", "command line")[0]
    rate = _option(told, command, "rate")
    if rate is None or rate < _RATE_MIN:
        raise DataError(
            f"{where}: httperf was run without a --rate of at least {_RATE_MIN:g}/s: connections "
            "came one after the other, which is no load that can be simulated"
        )
    if "--wsess" in command or "--burst-length" in command:
        raise DataError(f"{where}: sessions and bursts of httperf (--wsess) are not read")
    connections, _, replies, seconds = told.numbers(
        rf"^Total: connections {NUMBER} requests {NUMBER} replies {NUMBER} "
        rf"test-duration {NUMBER} s",
        "line that begins with Total:",
    )
    if not 0 < seconds <= TIME_NS_MAX / SECOND_NS:
        raise DataError(
            f"{where}: the test-duration must be above 0 s and at most a hundred days, "
            f"got {seconds:g} s"
        )
    errors = _errors(told)
    untried = errors.get("descriptors", 0) + errors.get("ports", 0)
    offered = int(connections) + untried
    (concurrent,) = told.numbers(
        rf"^Connection rate: .*<={NUMBER} concurrent connections", "connection rate"
    )
    low, mean, high, median, _ = told.numbers(
        rf"^Connection time \[ms\]: min {NUMBER} avg {NUMBER} max {NUMBER} "
        rf"median {NUMBER} stddev {NUMBER}",
        "connection times",
    )
    statuses = told.numbers(
        rf"^Reply status: 1xx={NUMBER} 2xx={NUMBER} 3xx={NUMBER} 4xx={NUMBER} 5xx={NUMBER}",
        "reply status",
    )
    failed = int(statuses[3] + statuses[4])
    if failed:
        errors["status"] = failed
    (reply_bytes,) = told.numbers(rf"^Reply size \[B\]: .*\(total {NUMBER}\)", "reply size")
    (request_bytes,) = told.numbers(rf"^Request size \[B\]: {NUMBER}", "request size")
    timeout_s = _option(told, command, "timeout")
    due_ns = round(offered / rate * SECOND_NS)
    window_ns = round(seconds * SECOND_NS)
    whole = max(0, int(connections) - sum(errors.values()) + untried + failed)
    load = {
        "loop": "open",
        "rate_per_s": rate,
        "requests": int(_option(told, command, "num-calls") or 1),
        "timeout_ns": round(timeout_s * SECOND_NS) if timeout_s else None,
        "request_bytes": request_bytes or None,
        "reply_bytes": reply_bytes or None,
    }
    content = {
        "source": {"tool": "httperf", "file": where},
        "load": load,
        "window_ns": window_ns,
        "offered": offered,
        "replied": int(replies),
        "errors": errors,
        "latency_ns": _latency(low, mean, high, median) if whole else None,
        "overrun_ns": max(0, window_ns - due_ns),
        "concurrent": int(concurrent),
    }
    run = observed_run(where, content)
    return run.model_copy(update={"doubts": tuple(_doubts(told, run, rate))})


def _latency(low: float, mean: float, high: float, median: float) -> dict[str, Any]:
    # It takes the median from bins of 1 ms, whose middle may lie outside of all values.
    middle = min(max(median, low), high)
    return {
        "since": "connect",
        "quantiles": {"0": low * _MILLISECOND_NS, "0.5": middle * _MILLISECOND_NS},
        "mean": mean * _MILLISECOND_NS,
        "max": high * _MILLISECOND_NS,
    }


def _option(told: Printed, command: str, name: str) -> float | None:
    match = re.search(rf"--{name}=([^ ]*)", command)
    return told.number(match[1], f"--{name}") if match else None


def _errors(told: Printed) -> dict[ErrorName, int]:
    """Return the errors by our names; those that are 0 are left out."""
    lines = (
        told.find(r"^Errors: total .*$", "first line of errors")[0],
        told.find(
            r"^Errors: fd-unavail [0-9]+ addrunavail [0-9]+ ftab-full [0-9]+ other [0-9]+$",
            "second line of errors",
        )[0],
    )
    pairs = re.findall(r"([a-z-]+) ([0-9]+)", " ".join(lines))
    found: dict[ErrorName, int] = {}
    for name, count in pairs:
        if name in _ERRORS and (n := int(told.number(count, name))):
            found[_ERRORS[name]] = found.get(_ERRORS[name], 0) + n
    return found


def _doubts(told: Printed, run: ObservedRun, rate: float) -> list[str]:
    """Return what httperf could not have seen, or not have done."""
    found = []
    if run.errors.get("refused") == run.offered:
        found.append("every connection was refused: no server listened there")
    n_untried = run.errors.get("descriptors", 0) + run.errors.get("ports", 0)
    if n_untried:
        found.append(
            f"{n_untried} of {run.offered} connections were never tried, as httperf had no "
            f"descriptor or port left: the server was offered less than {rate:g}/s"
        )
    elif (run.concurrent or 0) >= _TABLE_FULL * _FD_SETSIZE:
        found.append(
            f"httperf had {run.concurrent} connections open, about as many as select() can hold "
            f"({_FD_SETSIZE}): it may have waited for descriptors"
        )
    burst = told.look(rf"^Maximum connect burst length: {NUMBER}")
    if burst and float(burst[1]) / rate > _STILL_S:
        found.append(
            f"httperf began {burst[1]} connections in one go, so it had stood still for "
            f"{float(burst[1]) / rate * 1e3:.0f} ms: the load came in bursts"
        )
    begun_per_s = run.offered * SECOND_NS / run.window_ns
    if begun_per_s < _SLOW * rate:
        found.append(
            f"{begun_per_s:.0f} connections a second were begun on average, not {rate:g}: the run "
            "went on until the last had ended"
        )
    if run.load.timeout_ns and run.errors.get("timeout"):
        found.append(
            f"who waited longer than {run.load.timeout_ns / SECOND_NS:g} s is an error and not in "
            "the latencies"
        )
    if told.look(r"^Reply rate .*\(0 samples\)"):
        found.append("shorter than the 5 s of a sample of the reply rate: its scatter is unknown")
    return found
