"""Runs with a tool that people know instead of our load generator: httperf or wrk.

    snapshot ──► httperf | wrk on the clients' CPU ──► what it prints ──► snapshot ──► ObservedRun

What they print is read as if somebody had brought it; CPU time, idle connections and noise are
known besides. Both are bounded: by a number of connections, or by a time.

Source: httperf(1); wrk 4.1, README.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from typing import Any

from ...sim.state.units import SECOND_NS
from ..points.points import Point
from ..records.measured_runs import DataError
from ..testbed.processes import PRIORITY_HIGHEST, Child, RunError
from .httperf import read_httperf
from .observed_run import ObservedRun
from .observing import Driven, Driver, RunSetup
from .operating_point import KEPT
from .watching import Watched, snapshot
from .wrk import read_wrk

_GRACE_S = 15.0


def httperf_load(run: RunSetup) -> Driven:
    """Ask with httperf, an open loop of connections that come at equal distances."""
    load, asking, testbed = run.load, run.asking, run.bench.testbed
    seconds = run.bench.timing.window_s
    timeout_s = load.timeout_ns / SECOND_NS
    command = [
        "httperf", "--hog", "--server", testbed.address, "--port", str(run.box.port),
        "--server-name", asking.host, "--uri", asking.path,
        f"--http-version={asking.protocol.removeprefix('http/')}",
        f"--rate={load.rate_per_s:.12g}", f"--num-conns={max(1, round(load.rate_per_s * seconds))}",
        f"--num-calls={load.requests}", f"--timeout={timeout_s:g}",
    ]  # fmt: skip
    return _driven(run, command, seconds + load.requests * timeout_s, read_httperf)


def wrk_load(run: RunSetup) -> Driven:
    """Ask with wrk, a closed loop of connections."""
    load, asking, testbed = run.load, run.asking, run.bench.testbed
    # It takes whole seconds, and has no warm-up that it leaves out.
    seconds = math.ceil(run.bench.timing.window_s) + 1
    command = [
        "wrk", "--threads", "1", "--connections", str(load.users), "--duration", f"{seconds}s",
        "--timeout", f"{max(1, load.timeout_ns // SECOND_NS)}s", "--latency",
        "--header", f"Host: {asking.host}",
        *(["--header", "Connection: close"] if load.requests == 1 else []),
        f"http://{testbed.address}:{run.box.port}{asking.path}",
    ]  # fmt: skip
    return _driven(run, command, seconds, read_wrk)


TOOLS: dict[str, Driver] = {"httperf": httperf_load, "wrk": wrk_load}


def why_not(tool: str, load: Point, protocol: str) -> str:
    """Return why *tool* cannot make *load*, or an empty string."""
    if not protocol.startswith("http/"):
        return f"{tool} speaks http only, got --protocol {protocol}"
    if shutil.which(tool) is None:
        return f"{tool} is not installed: apt-get install {tool}"
    if tool == "httperf" and load.loop == "closed":
        return "httperf has no closed loop of users: it needs a --rate, and no --users"
    return _why_not_wrk(load, protocol) if tool == "wrk" else ""


def _why_not_wrk(load: Point, protocol: str) -> str:
    if load.loop == "open":
        return "wrk is a closed loop, and has no --rate"
    if protocol != "http/1.1":
        return f"wrk speaks http/1.1 only, got --protocol {protocol}"
    if load.requests not in (1, KEPT):
        return (
            f"wrk makes one request a connection or as many as fit the run ({KEPT}), "
            f"got --requests {load.requests}"
        )
    return ""


def _driven(
    run: RunSetup, command: list[str], seconds: float, read: Callable[[str, str], ObservedRun]
) -> Driven:
    """Run *command*, which takes *seconds*, and return what it told."""
    box, testbed, tool = run.box, run.bench.testbed, command[0]
    before = snapshot(box, testbed.server_cpu)
    with Child(
        tool, testbed.on_client(*command), cpu=testbed.client_cpu, priority=PRIORITY_HIGHEST
    ) as child:
        lines = child.read_all(timeout_s=seconds + _GRACE_S)
    after = snapshot(box, testbed.server_cpu)
    try:
        told = read("\n".join(lines) + "\n", tool)
    except DataError as error:
        raise RunError(str(error)) from error
    load = told.load.model_copy(update={"idle": run.load.idle})
    seen: dict[str, Any] = {
        "source": {"tool": tool},
        "load": load.model_dump(),
        "window_ns": told.window_ns,
        "offered": told.offered,
        "replied": told.replied,
        "errors": dict(told.errors),
        "latency_ns": told.latency_ns.model_dump() if told.latency_ns else None,
        "overrun_ns": told.overrun_ns,
        "concurrent": told.concurrent,
        "doubts": told.doubts,
    }
    if tool == "wrk":
        seen["load"]["requests"] = 1 if run.load.requests == 1 else 0
    return Driven(seen, Watched(before, after))
