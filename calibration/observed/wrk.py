"""What wrk and wrk2 print: connections that stay, and ask when they are answered, or at a rate.

wrk is a closed loop: a server that stands still is asked nothing meanwhile, so that the wait of
those who would have come is in no figure (coordinated omission). wrk2 asks at a rate and counts
from when a request was due; it prints everything but that rate.

Source: wrk 4.1 src/wrk.c; wrk2 4.0 src/wrk.c (print_hdr_latency, print_stats_latency).
"""

from __future__ import annotations

import re

from ..records.measured_runs import DataError
from .observed_run import ErrorName, ObservedRun, observed_run
from .printed import NUMBER, Printed, share_name

_TIME = r"([0-9.]+(?:us|ms|s|m|h))"
_COUNT_SIZES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_SLOW = 0.97
_FIRST_S = 10.0


def is_wrk(text: str) -> bool:
    """Return whether *text* looks like the output of wrk or wrk2."""
    head = r"^Running .* test @ |^ *Thread Stats +Avg|^unable to connect to "
    return re.search(head, text, re.MULTILINE) is not None


def read_wrk(text: str, where: str, *, rate_per_s: float | None = None) -> ObservedRun:
    """Return the run that wrk or wrk2 told of in *text*; *where* begins the message of an error.

    Parameters
    ----------
    rate_per_s:
        What wrk2 was told by -R, which it does not print.

    Raises
    ------
    DataError
        If a line is missing that all versions print; for wrk2 without a rate, for wrk with one.
    """
    is_paced = re.search(r"HdrHistogram|Thread calibration", text) is not None
    tool = "wrk2" if is_paced else "wrk"
    told = Printed(text, where, tool)
    if unable := told.look(r"^unable to connect to .*$"):
        raise DataError(f"{where}: wrk was {unable[0]}")
    if is_paced and rate_per_s is None:
        raise DataError(f"{where}: wrk2 does not print its rate (-R), so it has to be told: --rate")
    if not is_paced and rate_per_s is not None:
        raise DataError(f"{where}: --rate was given, and wrk has none: it is a closed loop")
    (users,) = told.numbers(
        rf"^ +[0-9]+ threads and {NUMBER} connections", "number of threads and connections"
    )
    # wrk2 prints what it was told as its users typed it, and both print how long it took.
    done = told.find(
        rf"^ +{NUMBER} requests in {_TIME}, .* read", "line that counts requests and bytes"
    )
    replied = int(told.number(done[1], "requests"))
    window_ns = round(told.time_ns(done[2], "the time that requests took"))
    per_s = told.numbers(rf"^Requests/sec: +{NUMBER}", "requests a second")[0]
    told.find(r"^Transfer/sec: +[0-9.]+[KMGT]?B", "last line, Transfer/sec")
    if window_ns < 1:
        raise DataError(f"{where}: the run must have taken longer than 0 s")
    errors = _errors(told)
    row = told.find(rf"^ +Latency +{_TIME} +{_TIME} +{_TIME} +{NUMBER}%", "row of the mean latency")
    quantiles = _quantiles(told)
    mean_ns, max_ns = told.time_ns(row[1], "mean latency"), told.time_ns(row[3], "highest latency")
    latency = {
        "since": "intended" if is_paced else "sent",
        # They are printed with three digits each, so the highest may be just below a quantile.
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
    return run.model_copy(update={"doubts": tuple(_doubts(told, run, per_s))})


def _quantiles(told: Printed) -> dict[str, float]:
    """Return the corrected distribution, which is the first that wrk2 prints, in ns."""
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
        raise DataError(f"{told.where}: the latency distribution is empty: the output was cut")
    return found


def _errors(told: Printed) -> dict[ErrorName, int]:
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


def _doubts(told: Printed, run: ObservedRun, per_s: float) -> list[str]:
    """Return what the tool could not have seen."""
    found = []
    users, rate_per_s = run.load.users, run.load.rate_per_s
    if rate_per_s is None:
        found.append(
            f"a closed loop: {users} connections wait for their replies, so no more than that "
            "many requests were ever open, and whoever would have come while the server stood "
            "still is in no latency"
        )
    if run.latency_ns is not None and not run.latency_ns.quantiles:
        found.append("run without --latency: mean and highest latency only")
    if rate_per_s is not None and per_s < _SLOW * rate_per_s:
        found.append(
            f"{per_s:g} replies a second of {rate_per_s:g} asked for: past its capacity, or the "
            f"{users} connections are too few for the rate, which the output cannot tell"
        )
    if rate_per_s is not None and run.window_ns < 2 * _FIRST_S * 1e9:
        found.append(
            f"wrk2 calibrates for its first {_FIRST_S:g} s, and the latencies are of the "
            f"{max(0.0, run.window_ns / 1e9 - _FIRST_S):.0f} s after that"
        )
    if told.look(r"^ +Socket errors: connect [1-9]"):
        found.append("connections that could not be made are not tried again: users are missing")
    return found
