"""A simulated run in the report formats of the load generators of the literature.

    httperf   an open loop: connections at a rate, errors by class, reply rate in samples of 5 s
    wrk       a closed loop: latency from when a request was sent, so the wait before sending is
              not counted ("coordinated omission")
    wrk2      an open loop: latency from when it was due, and beside it the latency that wrk reports

Lines are those of the tools, without wrk2's detailed percentile spectrum. The generator's own CPU
time is not simulated and printed as 0. A reply arrives as a whole, so httperf's transfer time is 0,
too. All values are of connections or requests that were due in the measured window.

Sources: httperf(1), "OUTPUT"; Mosberger and Jin 1998, "httperf: a tool for measuring web server
performance"; the README files of wrk and of wrk2 (Tene), "Acknowledgements", "Recorded latency".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..scenario.errors import UserError
from ..scenario.scenario import Scenario
from ..sim.figures.outcome import Outcome
from ..sim.state.kinds import NONE, Status
from ..sim.state.units import MILLISECOND_NS, SECOND_NS

Integers = NDArray[np.int64]

_SAMPLE_NS = 5 * SECOND_NS
"""httperf's interval of the reply rate."""


class Seen(NamedTuple):
    """The measurements of a generator in the window; times in ns, sizes in bytes.

    Attributes
    ----------
    window_ns:
        Its length.
    lifetimes_ns, connects_ns:
        Lifetime of each connection that had all its replies, and its time to the SYN-ACK.
    statuses:
        Status of each connection that was due.
    concurrent:
        Most connections open at once.
    sent_latencies_ns, due_latencies_ns:
        Latency of each request with a reply, since it was sent and since it was due.
    replied_at_ns:
        Arrival time of each of these replies, since the window began.
    requests, request_bytes, reply_bytes:
        Number of requests due, their bytes, and the bytes of the replies.
    """

    window_ns: int
    lifetimes_ns: Integers
    connects_ns: Integers
    statuses: Integers
    concurrent: int
    sent_latencies_ns: Integers
    due_latencies_ns: Integers
    replied_at_ns: Integers
    requests: int
    request_bytes: int
    reply_bytes: int


def seen_by_clients(outcome: Outcome, sizes: tuple[Integers, Integers]) -> Seen:
    """Return the measurements of the clients of *outcome*.

    Parameters
    ----------
    outcome:
        The record of a run.
    sizes:
        Bytes of a request and of a reply of each, shape (connections,) each.
    """
    n = outcome.intended_ns.size
    due = (outcome.intended_ns >= outcome.mark_ns) & (outcome.intended_ns < outcome.duration_ns)
    ended = due & (outcome.status == Status.REPLIED)
    begun_ns = outcome.started_ns[ended]
    owner, due_ns, reply_ns = outcome.asked_on, outcome.due_ns, outcome.reply_ns
    asked = (due_ns >= outcome.mark_ns) & (due_ns < outcome.duration_ns)
    answered = asked & (reply_ns != NONE)
    sent_ns = np.maximum(due_ns, outcome.connected_ns[owner])[answered]
    request_bytes, reply_bytes = (column[:n][owner] for column in sizes)
    return Seen(
        window_ns=outcome.duration_ns - outcome.mark_ns,
        lifetimes_ns=outcome.done_ns[ended] - begun_ns,
        connects_ns=outcome.connected_ns[ended] - begun_ns,
        statuses=outcome.status[due],
        concurrent=_concurrent(outcome, due),
        sent_latencies_ns=reply_ns[answered] - sent_ns,
        due_latencies_ns=(reply_ns - due_ns)[answered],
        replied_at_ns=reply_ns[answered] - outcome.mark_ns,
        requests=int(asked.sum()),
        request_bytes=int(request_bytes[asked].sum()),
        reply_bytes=int(reply_bytes[answered].sum()),
    )


def _concurrent(outcome: Outcome, due: NDArray[np.bool_]) -> int:
    came_ns = outcome.started_ns[due]
    left_ns = np.where(outcome.done_ns == NONE, outcome.duration_ns, outcome.done_ns)[due]
    # A connection that ends in a nanosecond makes room for one that begins in it.
    times_ns = np.concatenate([left_ns, came_ns])
    steps = np.repeat([-1, 1], [left_ns.size, came_ns.size])
    open_now = np.cumsum(steps[np.argsort(times_ns, kind="stable")])
    return int(open_now.max(initial=0))


def check_loop(tool: str, scenario: Scenario) -> None:
    """Refuse a tool that cannot generate the load of *scenario*.

    Raises
    ------
    UserError
        With the setting that it needs.
    """
    loop = scenario.load.loop
    needed = "closed" if tool == "wrk" else "open"
    if scenario.machine.role == "client":
        raise UserError('--report: needs machine.role = "server": the clients are the tool')
    if scenario.load.connections is not None:
        raise UserError("--report: needs load.connections to be absent: reports do not cover it")
    if loop != needed:
        raise UserError(f'--report: {tool} needs load.loop = "{needed}", got "{loop}"')


def tool_report(tool: str, scenario: Scenario, seen: Seen) -> str:
    """Return the report of *tool*, which can generate the load of *scenario*."""
    return _REPORTS[tool](scenario, seen)


def _httperf(scenario: Scenario, seen: Seen) -> str:
    del scenario
    seconds = seen.window_ns / SECOND_NS
    n, n_replies = seen.statuses.size, seen.replied_at_ns.size
    of = {status: int((seen.statuses == status).sum()) for status in Status}
    times_ms = seen.lifetimes_ns / MILLISECOND_NS
    low, mean, high, middle, spread = _five(times_ms)
    n_whole = seen.lifetimes_ns.size
    samples = np.bincount(seen.replied_at_ns // _SAMPLE_NS)[: seen.window_ns // _SAMPLE_NS]
    rates = samples / (_SAMPLE_NS / SECOND_NS)
    least, average, most, _, deviation = _five(rates)
    n_errors = n - of[Status.REPLIED] - of[Status.OPEN]
    sent, received = seen.request_bytes, seen.reply_bytes
    size = _ratio(received, n_replies)
    per_s, asked_per_s = n / seconds, seen.requests / seconds
    return "\n".join(
        [
            f"Total: connections {n} requests {seen.requests} replies {n_replies} "
            f"test-duration {seconds:.3f} s",
            "",
            f"Connection rate: {per_s:.1f} conn/s ({_ratio(1e3, per_s):.1f} ms/conn, "
            f"<={seen.concurrent} concurrent connections)",
            f"Connection time [ms]: min {low:.1f} avg {mean:.1f} max {high:.1f} "
            f"median {middle:.1f} stddev {spread:.1f}",
            f"Connection time [ms]: connect {_mean(seen.connects_ns) / MILLISECOND_NS:.1f}",
            f"Connection length [replies/conn]: {_ratio(n_replies, n_whole):.3f}",
            "",
            f"Request rate: {asked_per_s:.1f} req/s ({_ratio(1e3, asked_per_s):.1f} ms/req)",
            f"Request size [B]: {_ratio(sent, seen.requests):.1f}",
            "",
            f"Reply rate [replies/s]: min {least:.1f} avg {average:.1f} max {most:.1f} "
            f"stddev {deviation:.1f} ({rates.size} samples)",
            f"Reply time [ms]: response {_mean(seen.sent_latencies_ns) / MILLISECOND_NS:.1f} "
            f"transfer 0.0",
            f"Reply size [B]: header 0.0 content {size:.1f} footer 0.0 (total {size:.1f})",
            f"Reply status: 1xx=0 2xx={n_replies} 3xx=0 4xx=0 5xx=0",
            "",
            "CPU time [s]: user 0.00 system 0.00 (user 0.0% system 0.0% total 0.0%)",
            f"Net I/O: {(sent + received) / seconds / 1024:.1f} KB/s "
            f"({(sent + received) * 8 / seconds / 1e6:.1f}*10^6 bps)",
            "",
            f"Errors: total {n_errors} client-timo {of[Status.TIMEOUT]} "
            f"socket-timo {of[Status.DROPPED]} connrefused {of[Status.REFUSED]} "
            f"connreset {of[Status.RESET]}",
            f"Errors: fd-unavail {of[Status.DESCRIPTORS]} addrunavail {of[Status.PORTS]} "
            f"ftab-full 0 other 0",
        ]
    )


def _wrk(scenario: Scenario, seen: Seen) -> str:
    quantiles = (50, 75, 90, 99)
    times_ns = seen.sent_latencies_ns
    lines = [f"{q:7.0f}%{_padded(_time(_quantile(times_ns, q)), 10)}" for q in quantiles]
    return "\n".join(
        [
            *_wrk_head(scenario.load.users or 0, seen, times_ns),
            "  Latency Distribution",
            *lines,
            *_wrk_tail(seen),
        ]
    )


def _wrk2(scenario: Scenario, seen: Seen) -> str:
    del scenario

    def spectrum(times_ns: Integers) -> list[str]:
        quantiles = (50, 75, 90, 99, 99.9, 99.99, 99.999, 100)
        lines = [f"{q:7.3f}%{_padded(_time(_quantile(times_ns, q)), 10)}" for q in quantiles]
        return [*lines, "-" * 58]

    return "\n".join(
        [
            *_wrk_head(seen.concurrent, seen, seen.due_latencies_ns),
            "  Latency Distribution (HdrHistogram - Recorded Latency)",
            *spectrum(seen.due_latencies_ns),
            "",
            "  Latency Distribution (HdrHistogram - Uncorrected Latency (measured without taking "
            "delayed starts into account))",
            *spectrum(seen.sent_latencies_ns),
            *_wrk_tail(seen),
        ]
    )


def _wrk_head(connections: int, seen: Seen, times_ns: Integers) -> list[str]:
    _, mean_ns, high_ns, _, spread_ns = _five(times_ns)
    near = np.abs(times_ns - mean_ns) <= spread_ns
    share = _mean(near) * 100
    per_s = np.bincount(seen.replied_at_ns // SECOND_NS)[: seen.window_ns // SECOND_NS]
    _, mean, high, _, spread = _five(per_s)
    close = _mean(np.abs(per_s - mean) <= spread) * 100
    return [
        f"Running {seen.window_ns / SECOND_NS:g}s test @ http://simulated/",
        f"  1 threads and {connections} connections",
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev",
        _row("Latency", [_time(ns) for ns in (mean_ns, spread_ns, high_ns)], share),
        _row("Req/Sec", [_count(rate) for rate in (mean, spread, high)], close),
    ]


def _row(name: str, values: list[str], share: float) -> str:
    columns = map(_padded, values, (8, 10, 9))
    return f"    {name:10}{''.join(columns)}{share:8.2f}%"


def _padded(text: str, width: int) -> str:
    """Return *text* in *width* columns, two of them for its unit, as print_units() does."""
    missing = 2 - len(text) + len(text.rstrip("mushkM"))
    return f"{text:>{width - missing}}" + " " * missing


def _wrk_tail(seen: Seen) -> list[str]:
    seconds = seen.window_ns / SECOND_NS
    n = seen.replied_at_ns.size
    of = {status: int((seen.statuses == status).sum()) for status in Status}
    connect = of[Status.REFUSED] + of[Status.DROPPED] + of[Status.DESCRIPTORS] + of[Status.PORTS]
    errors = (connect, of[Status.RESET], 0, of[Status.TIMEOUT])
    told = "  Socket errors: connect {}, read {}, write {}, timeout {}".format(*errors)
    return [
        f"  {n} requests in {_time(seen.window_ns)}, {_bytes(seen.reply_bytes)} read",
        *([told] if any(errors) else []),
        f"Requests/sec: {n / seconds:>9.2f}",
        f"Transfer/sec: {_bytes(seen.reply_bytes / seconds):>11}",
    ]


def _five(values: NDArray[np.integer] | NDArray[np.floating]) -> tuple[float, ...]:
    """Return minimum, mean, maximum, median and deviation; 0 of nothing, as the tools print."""
    if values.size == 0:
        return 0.0, 0.0, 0.0, 0.0, 0.0
    found = (values.min(), values.mean(), values.max(), np.median(values), values.std())
    return tuple(float(value) for value in found)


def _mean(values: NDArray[np.integer] | NDArray[np.bool_]) -> float:
    return float(values.mean()) if values.size else 0.0


def _ratio(above: float, below: float) -> float:
    return above / below if below else 0.0


def _quantile(times_ns: Integers, percent: float) -> float:
    return float(np.percentile(times_ns, percent)) if times_ns.size else 0.0


def _time(ns: float) -> str:
    return _scaled(ns / 1_000, ((3600e6, "h"), (60e6, "m"), (1e6, "s"), (1e3, "ms"), (1.0, "us")))


def _count(number: float) -> str:
    return _scaled(number, ((1e6, "M"), (1e3, "k"), (1.0, "")))


def _bytes(number: float) -> str:
    return _scaled(number, ((2**30, "GB"), (2**20, "MB"), (2**10, "KB"), (1.0, "B")))


def _scaled(number: float, units: tuple[tuple[float, str], ...]) -> str:
    size, unit = next((each for each in units if number >= each[0]), units[-1])
    return f"{number / size:.2f}{unit}"


_REPORTS: dict[str, Callable[[Scenario, Seen], str]] = {
    "httperf": _httperf,
    "wrk": _wrk,
    "wrk2": _wrk2,
}
TOOLS = tuple(_REPORTS)
"""The load generators whose reports can be printed."""
