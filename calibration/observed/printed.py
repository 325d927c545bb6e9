"""The output of httperf, wrk and wrk2, read by lines that must be present.

httperf, version 0.9: an open loop of connections, each with some requests. It prints no
distribution of latencies, only the median and mean of connections, from the begin of connect() to
the close. Failed connections are not among them.

wrk is a closed loop of connections that stay open. During a stall it sends nothing, so the waits of
clients that would have arrived are not measured (coordinated omission). wrk2 sends at a rate and
counts from when a request was due; it prints everything but that rate.

Sources: httperf(1), "OUTPUT"; Mosberger and Jin 1998, "httperf: a tool for measuring web server
performance"; wrk 4.1 src/wrk.c; wrk2 4.0 src/wrk.c (print_hdr_latency, print_stats_latency).
"""

from __future__ import annotations

import math
import re
from typing import Any

from ...sim.state.units import SECOND_NS
from ..records.measured_runs import DataError
from .observed_run import KEPT_UP, ErrorName, ObservedRun, observed_run

NUMBER = r"(-?[0-9.]+(?:e[+-]?[0-9]+)?|-?nan|-?inf)"
_TIMES_NS = {"us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
_LINE_SHOWN = 60
_SHOWN = 40
NUMBER_MAX = 1e12
"""No tool counts higher; a larger number would only overflow later."""
TIME_NS_MAX = 100 * 24 * 3600e9
_TIME_MAX = "a hundred days"


class Printed:
    """The output of a tool, and its origin.

    Parameters
    ----------
    text:
        The whole output.
    where:
        The begin of error messages: a file's name.
    tool:
        The tool whose output it should be.
    """

    def __init__(self, text: str, where: str, tool: str) -> None:
        self.text, self.where, self.tool = text, where, tool

    def find(self, pattern: str, what: str) -> re.Match[str]:
        """Return the first match of *pattern*; *what* names its line in messages.

        Raises
        ------
        DataError
            If there is none: the output was cut, or is of an unknown version.
        """
        match = self.look(pattern)
        if match is None:
            last = self.text.strip().rsplit("\n", 1)[-1][:_LINE_SHOWN]
            raise DataError(
                f"{self.where}: no {what}: the output of {self.tool} is cut or of an unknown "
                f'version (its last line is "{last}")'
            )
        return match

    def look(self, pattern: str) -> re.Match[str] | None:
        """Return the first match of *pattern* at the begin of a line, if there is one."""
        return re.search(pattern, self.text, re.MULTILINE)

    def numbers(self, pattern: str, what: str) -> tuple[float, ...]:
        """Return the numbers in the line called *what*; see `find`.

        Raises
        ------
        DataError
            If the line is missing, or a number is invalid.
        """
        return tuple(self.number(group, what) for group in self.find(pattern, what).groups())

    def number(self, text: str, what: str) -> float:
        """Return *text* as a number from 0 to NUMBER_MAX.

        Raises
        ------
        DataError
            If it is no such number, with the line's name.
        """
        return number_of(text, f"{self.where}: {what}")

    def time_ns(self, text: str, what: str) -> float:
        """Return a time such as "4.05ms" in ns.

        Raises
        ------
        DataError
            If it is not a time.
        """
        match = re.fullmatch(NUMBER + "(us|ms|s|m|h)", text)
        if match is None:
            raise DataError(f'{self.where}: {what} must be a time such as 4.05ms, got "{text}"')
        value_ns = self.number(match[1], what) * _TIMES_NS[match[2]]
        if value_ns > TIME_NS_MAX:
            raise DataError(f"{self.where}: {what} must be at most {_TIME_MAX}, got {text}")
        return value_ns


def number_of(text: str, what: str) -> float:
    """Return *text* as a number from 0 to NUMBER_MAX; *what* begins the message of an error.

    Raises
    ------
    DataError
        If it is no such number.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= NUMBER_MAX:
        raise DataError(f'{what} must be a number from 0 to {NUMBER_MAX:g}, got "{text[:_SHOWN]}"')
    return value


def share_name(percent: float) -> str:
    """Return the name of a quantile.

    >>> share_name(99.9), share_name(50.0), share_name(100.0)
    ('0.999', '0.5', '1')
    """
    return f"{percent / 100:.7f}".rstrip("0").rstrip(".")


_MILLISECOND_NS = 1e6
_TABLE_FULL = 0.95
_FD_SETSIZE = 1024
_STILL_S = 0.05
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
    """Return the run in *text*, the output of httperf; *where* begins the message of an error.

    Raises
    ------
    DataError
        If a line of all versions is missing, or the options do not make an open loop of
        connections.
    """
    told = Printed(text, where, "httperf")
    command = told.find(r"^httperf (?!: ).*--.*$", "command line")[0]
    rate = _option(told, command, "rate")
    if rate is None or rate < _RATE_MIN:
        raise DataError(
            f"{where}: httperf must be run with a --rate of at least {_RATE_MIN:g}/s: without it "
            "connections come one after the other, and cannot be simulated"
        )
    if "--wsess" in command or "--burst-length" in command:
        raise DataError(
            f"{where}: httperf must be run without sessions (--wsess) and bursts (--burst-length)"
        )
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
    errors = _httperf_errors(told)
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
        "latency_ns": _httperf_latency(low, mean, high, median) if whole else None,
        "overrun_ns": max(0, window_ns - due_ns),
        "concurrent": int(concurrent),
    }
    run = observed_run(where, content)
    return run.model_copy(update={"doubts": tuple(_httperf_doubts(told, run, rate))})


def _httperf_latency(low: float, mean: float, high: float, median: float) -> dict[str, Any]:
    # httperf takes the median from bins of 1 ms; a bin's middle may lie outside of all values.
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


def _httperf_errors(told: Printed) -> dict[ErrorName, int]:
    """Return the errors by our names, without those that are 0."""
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


def _httperf_doubts(told: Printed, run: ObservedRun, rate: float) -> list[str]:
    """Return what httperf could not measure or not do."""
    found = []
    if run.errors.get("refused") == run.offered:
        found.append("every connection was refused: no server listened at this address")
    n_untried = run.errors.get("descriptors", 0) + run.errors.get("ports", 0)
    if n_untried:
        found.append(
            f"{n_untried} of {run.offered} connections were not tried, because httperf had no free "
            f"descriptor or port: the server was offered less than {rate:g}/s"
        )
    elif (run.concurrent or 0) >= _TABLE_FULL * _FD_SETSIZE:
        found.append(
            f"httperf had {run.concurrent} connections open, near the limit of select() "
            f"({_FD_SETSIZE}): it may have waited for descriptors"
        )
    burst = told.look(rf"^Maximum connect burst length: {NUMBER}")
    if burst and float(burst[1]) / rate > _STILL_S:
        found.append(
            f"httperf began {burst[1]} connections at once after a stall of "
            f"{float(burst[1]) / rate * 1e3:.0f} ms: the load came in bursts"
        )
    begun_per_s = run.offered * SECOND_NS / run.window_ns
    if begun_per_s < KEPT_UP * rate:
        found.append(
            f"{begun_per_s:.0f} connections a second began on average, not {rate:g}: the run "
            "lasted until the last connection ended"
        )
    if run.load.timeout_ns and run.errors.get("timeout"):
        found.append(
            f"clients that waited for more than {run.load.timeout_ns / SECOND_NS:g} s are errors "
            "and not in the latencies"
        )
    if told.look(r"^Reply rate .*\(0 samples\)"):
        found.append("a run under 5 s has no sample of the reply rate: its scatter is unknown")
    return found


_TIME = r"([0-9.]+(?:us|ms|s|m|h))"
_FIRST_S = 10.0


def is_wrk(text: str) -> bool:
    """Return whether *text* looks like the output of wrk or wrk2."""
    head = r"^Running .* test @ |^ *Thread Stats +Avg|^unable to connect to "
    return re.search(head, text, re.MULTILINE) is not None


def read_wrk(text: str, where: str, *, rate_per_s: float | None = None) -> ObservedRun:
    """Return the run in *text*, the output of wrk or wrk2; *where* begins an error's message.

    Parameters
    ----------
    rate_per_s:
        The option -R of wrk2, which it does not print.

    Raises
    ------
    DataError
        If a line of all versions is missing; for wrk2 without a rate, for wrk with a rate.
    """
    is_paced = re.search(r"HdrHistogram|Thread calibration", text) is not None
    tool = "wrk2" if is_paced else "wrk"
    told = Printed(text, where, tool)
    if unable := told.look(r"^unable to connect to .*$"):
        raise DataError(f"{where}: wrk was {unable[0]}")
    if is_paced and rate_per_s is None:
        raise DataError(f"{where}: wrk2 does not print its rate (-R): give it with --rate")
    if not is_paced and rate_per_s is not None:
        raise DataError(f"{where}: --rate must be absent: wrk has none, as it is a closed loop")
    (users,) = told.numbers(
        rf"^ +[0-9]+ threads and {NUMBER} connections", "number of threads and connections"
    )
    # wrk2 prints its options as the user typed them, and both tools print their duration.
    done = told.find(
        rf"^ +{NUMBER} requests in {_TIME}, .* read", "line that counts requests and bytes"
    )
    replied = int(told.number(done[1], "requests"))
    window_ns = round(told.time_ns(done[2], "the time that requests took"))
    per_s = told.numbers(rf"^Requests/sec: +{NUMBER}", "requests a second")[0]
    told.find(r"^Transfer/sec: +[0-9.]+[KMGT]?B", "last line, Transfer/sec")
    if window_ns < 1:
        raise DataError(f"{where}: the run must be longer than 0 s")
    errors = _wrk_errors(told)
    row = told.find(rf"^ +Latency +{_TIME} +{_TIME} +{_TIME} +{NUMBER}%", "row of the mean latency")
    quantiles = _quantiles(told)
    mean_ns, max_ns = told.time_ns(row[1], "mean latency"), told.time_ns(row[3], "highest latency")
    latency = {
        "since": "intended" if is_paced else "sent",
        # Both are rounded to three digits, so the highest may be just below a quantile.
        "quantiles": {name: min(ns, max_ns) for name, ns in quantiles.items()},
        "mean": mean_ns,
        "max": max_ns,
    }
    failed = sum(n for name, n in errors.items() if name != "status")
    offered = replied + failed
    if rate_per_s is not None:
        offered = max(offered, round(rate_per_s * window_ns / 1e9))
    load = {
        "loop": "open" if is_paced else "closed",
        "rate_per_s": rate_per_s,
        "users": int(users),
        "requests": 0,
    }
    content = {
        "source": {"tool": tool, "file": where},
        "load": load,
        "window_ns": window_ns,
        "offered": offered,
        "replied": replied,
        "errors": errors,
        "latency_ns": latency if replied else None,
        "concurrent": int(users),
    }
    run = observed_run(where, content)
    return run.model_copy(update={"doubts": tuple(_wrk_doubts(told, run, per_s))})


def _quantiles(told: Printed) -> dict[str, float]:
    """Return the corrected distribution in ns; wrk2 prints it first."""
    head = told.look(r"^ +Latency Distribution.*$")
    if head is None:
        return {}
    found: dict[str, float] = {}
    for line in told.text[head.end() + 1 :].splitlines():
        match = re.fullmatch(rf" *{NUMBER}% +{_TIME} *", line)
        if match is None:
            break
        share = share_name(told.number(match[1], "the share of a quantile"))
        found[share] = told.time_ns(match[2], f"the {match[1]}% latency")
    if not found:
        raise DataError(f"{told.where}: the latency distribution is empty: the output is cut")
    return found


def _wrk_errors(told: Printed) -> dict[ErrorName, int]:
    found: dict[ErrorName, int] = {}
    match = told.look(
        rf"^ +Socket errors: connect {NUMBER}, read {NUMBER}, write {NUMBER}, timeout {NUMBER}"
    )
    if match:
        connect, read, write, timeout = (
            int(told.number(n, "socket errors")) for n in match.groups()
        )
        found |= {"refused": connect, "reset": read + write, "timeout": timeout}
    status = told.look(rf"^ +Non-2xx or 3xx responses: {NUMBER}")
    if status:
        found["status"] = int(told.number(status[1], "error responses"))
    return {name: count for name, count in found.items() if count}


def _wrk_doubts(told: Printed, run: ObservedRun, per_s: float) -> list[str]:
    """Return what the tool could not measure."""
    found = []
    users, rate_per_s = run.load.users, run.load.rate_per_s
    if rate_per_s is None:
        found.append(
            f"a closed loop: at most {users} requests were open at once, one on each connection; "
            "requests that open-loop clients would have sent during a stall are missing from the "
            "latencies"
        )
    if run.latency_ns is not None and not run.latency_ns.quantiles:
        found.append("without --latency, wrk prints the mean and highest latency only")
    if rate_per_s is not None and per_s < KEPT_UP * rate_per_s:
        found.append(
            f"{per_s:g} replies a second of {rate_per_s:g} asked for: the rate is above capacity, "
            f"or {users} connections are too few for it; the output does not show which"
        )
    if rate_per_s is not None and run.window_ns < 2 * _FIRST_S * 1e9:
        found.append(
            f"wrk2 calibrates in its first {_FIRST_S:g} s: the latencies are of the "
            f"{max(0.0, run.window_ns / 1e9 - _FIRST_S):.0f} s after that"
        )
    if told.look(r"^ +Socket errors: connect [1-9]"):
        found.append("connections that could not be made are not retried: users are missing")
    return found
