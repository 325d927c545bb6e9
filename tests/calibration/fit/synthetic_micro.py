"""What a campaign of microbenchmarks would have measured if the costs were those given here."""

import shlex
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.calibration.fit import synthetic_asleep as asleep
from tests.calibration.fit import synthetic_told as told

from dispatchsim.calibration.measure.microbenchmarks import bench_commands
from dispatchsim.calibration.records.measured_runs import MicroResult

TRUE: dict[str, float] = {
    "entry": 3000, "syn": 6000, "dropped": 800, "data": 2500, "later": 1700, "reset": 1500,
    "callback": 300, "wake": 7000, "sleep": 1500,
    "idle_exit": 4000, "delay": 900, "call": 200, "event": 110, "recheck": 90, "kib": 60,
    "acked": 700, "floor": 130, "connect": 8000, "send": 3000, "client_again": 1400,
    "receive": 1100, "close": 2500, "way": 3400, "ipi": 6000, "delivery": 2300, "after": 400,
    "cold": 1900, "connect_after": 900, "close_after": 700,
    "close_delivery": 1800, "close_until": 300, "syn_cold": 3200, "accept_cold": 1300,
}  # fmt: skip
SERVED = {"accept": 2000, "accept_again": 2600, "read": 700, "read_again": 300, "write": 6000}
CLOSE_NS, ADD_NS, MODIFY_NS, DELETE_NS = 4500, 680, 230, 530
DEFAULTS: dict[str, dict[str, int | str]] = {
    "write_flights": {"reply": 128},
    "cache_refill": {"n": 64, "pause_us": 1000},
    "serve_calls": {"n": 0, "batch": 64, "reply": 128, "mechanism": "none"},
    "client_calls": {"batch": 64},
    "client_again": {"batch": 1024},
    "epoll": {"n": 100},
    "interrupt": {"burst": 8, "mechanism": "none", "pause_us": 300},
    "handshake": {"pause_us": 300},
    "pingpong": {"n": 0, "mechanism": "none"},
    "wait_told": {"n": 100, "ready": 1},
    "wait_ready": {"n": 100, "ready": 1},
    "wait_vain": {"n": 1},
    "watch_calls": {"batch": 64},
    "ring_calls": {"batch": 64},
    "close_ended": {"batch": 64},
    "handover": {"n": 2},
}


def grown(ns: float, n: int) -> float:
    """Return a price that grows with the open connections."""
    return ns * (1 + n / 20_000)


def bits(span: int) -> float:
    return 0.5 * span


def scan(n: int) -> float:
    return float(np.interp(n, [0, 500, 2000, 10_000], [0, 31_500, 150_000, 900_000]))


def register(first: int) -> float:
    return 110.0 * first


def interrupts_per_operation(burst: int) -> float:
    return max(1 / burst, 0.1)


def scanned(name: str, kind: str, given: dict[str, Any]) -> dict[str, float]:
    n = given["n"]
    if kind == "sparse":
        return {"median": 90 + scan(n) + bits(given["span"])}
    ns = 90 + scan(n) + (bits(n) if name == "select" else 0)
    if kind == "first":
        ns += 40 + register(given["first"])
    if kind == "ready":
        ns += 3 * given["ready"]
    return {"median": ns}


def interrupted(kind: str, given: dict[str, Any]) -> dict[str, float]:
    entries = interrupts_per_operation(given["burst"])
    own = TRUE[{"connect": "syn"}.get(kind, kind)]
    callback = TRUE["callback"] if given["mechanism"] == "epoll" else 0
    cold = TRUE["cold"] if (kind, given["burst"]) == ("connect", 1) else 0
    return {
        "median": own + callback + cold + TRUE["entry"] * entries,
        "interrupts_per_operation": entries,
    }


def uninterrupted(call_ns: float, begin: str, end: str) -> dict[str, float]:
    """Return when sends began that interrupt nobody: evenly, so a tenth is beyond either end."""
    send_ns = TRUE["send"] - 300
    first, last = (call_ns - TRUE[name] - send_ns for name in (begin, end))
    tenth = (last - first) / 10
    return {"median": (first + last) / 2, "p10": first + tenth, "p90": last - tenth}


def leaving() -> dict[str, dict[str, float]]:
    """Return the lines of the moments at which packets leave, and of a server's close."""
    socket_ns, close_ns = 1_000.0, 4_400.0
    connect_ns = TRUE["connect"] - TRUE["connect_after"] - socket_ns
    opened_ns = TRUE["entry"] + TRUE["syn"] + 2 * TRUE["delay"]
    return {
        "leaves_socket": {"median": socket_ns},
        "leaves_connect": {"median": connect_ns + TRUE["way"]},
        "leaves_opened": {"median": opened_ns},
        "leaves_softirq": {"median": opened_ns},
        "leaves_reset": {"median": TRUE["close"] - TRUE["close_after"] + TRUE["way"]},
        "leaves_closing": uninterrupted(close_ns, "close_delivery", "close_until"),
        "leaves_close": {"median": close_ns},
    }


def on_its_way() -> dict[str, dict[str, float]]:
    """Return the lines of interrupts by another CPU; ways are 400 ns to either side of theirs."""
    send_ns, write_ns = TRUE["send"] - 300, 4900.0
    way_ns = send_ns + TRUE["way"]
    return {
        "way_interrupt": {"median": way_ns, "p10": way_ns - 400, "p90": way_ns + 400},
        "way_send": {"median": send_ns + TRUE["ipi"]},
        "way_second": {"median": send_ns},
        "way_beside": uninterrupted(write_ns, "delivery", "after"),
        "way_seen": {"median": write_ns},
        "way_write": {"median": write_ns},
    }


def busied(bench: str, given: dict[str, Any]) -> dict[str, float]:
    if bench == "cache_refill":
        return {"median": refilled(given["pause_us"]) - 5}
    # Flights of 10 and 10, or 10, 20 and 16 segments, every second one of which is acknowledged:
    # the first acknowledgement of each flight is another cost, and of a window none is waited for.
    n_more = {28_672: 4 + 4, 65_536: 4 + 9 + 7}.get(given["reply"], 0)
    ns = 15_000 + TRUE["kib"] * given["reply"] / 1024 + TRUE["acked"] * n_more
    return {"median": ns, "interrupts_per_operation": 0}


def refilled(us: int) -> float:
    return float(np.interp(us, [0, 200, 1000, 4000], [0, 0, 9_000, 30_000]))


def epolled(kind: str, given: dict[str, Any]) -> dict[str, float]:
    if kind == "block":
        thread_ns = (
            TRUE["call"] + TRUE["event"] + SERVED["read"] + TRUE["wake"] + TRUE["sleep"] - 1000
        )
        in_softirq_ns = TRUE["entry"] + TRUE["data"] + TRUE["callback"]
        return {
            "median": thread_ns,
            "cpu_ns": thread_ns + 400,
            "busy_ns": thread_ns + 400 + in_softirq_ns + 1000,
        }
    if kind in ("wait_ready", "recheck"):
        each = TRUE["event" if kind == "wait_ready" else "recheck"]
        return {"median": TRUE["call"] + each * given["ready"]}
    ns = {"add": ADD_NS, "mod": MODIFY_NS, "del": DELETE_NS}[kind]
    return {"median": grown(ns, given["n"])}


def left_idleness(pause_us: int) -> float:
    return TRUE["idle_exit"] + (9_000 if pause_us >= 50 else 0)


def tripped(bench: str, given: dict[str, Any]) -> dict[str, float]:
    """Return a round trip: of a byte, or of a handshake."""
    if bench.startswith("handshake"):
        connect_ns = TRUE["connect"] - grown(ADD_NS, 100)
        known = connect_ns + TRUE["way"] + TRUE["entry"] + TRUE["syn"] + 2 * TRUE["delay"]
        exit_ns = left_idleness(given["pause_us"])
        return {"median": known + (exit_ns if bench == "handshake_idle" else 0)}
    asleep = left_idleness(300) + TRUE["wake"] + TRUE["event"]
    return {"median": 15_000 + (asleep if bench == "pingpong_block" else 0)}


def served(given: dict[str, Any]) -> dict[str, dict[str, float]]:
    n = given["n"]
    ns = {name: grown(price, n) for name, price in SERVED.items()}
    ns["write"] += TRUE["kib"] * given["reply"] / 1024
    ns["close"] = grown(CLOSE_NS, n)
    if given["mechanism"] == "epoll":
        # The price of EPOLL_CTL_DEL was measured with 100 and more.
        ns["close"] += grown(DELETE_NS, max(n, 100)) - TRUE["floor"]
    elif given["mechanism"] != "none":
        own = told.served()
        ns |= own | {"close": ns["close"] + own["close"]}
    return {f"serve_{name}": {"median": price} for name, price in ns.items()}


COOLED = {"syn": 40, "ack": 900, "data": 200, "accept": 300, "read": 100, "write": 50}
"""What packets and calls take more in turns than one kind after another."""
COOLS_US = {"syn": 5, "ack": 3, "data": 2, "reset": 1, "accept": 4, "read": 0.6, "write": 1.5,
            "close": 2.5}  # fmt: skip
"""What they take more for each microsecond of idleness, in ns."""


def paced(bench: str, pause_us: int) -> asleep.Lines:
    """Return the lines of connections, or requests, that come one by one."""
    idle_us = pause_us + 50 if pause_us else 0
    warm = {
        "syn": TRUE["entry"] + TRUE["syn"],
        "ack": TRUE["entry"],
        "request": TRUE["entry"] + TRUE["data"] + TRUE["callback"],
        "reset": 7_000,
        "accept": SERVED["accept"],
        "read": SERVED["read"],
        "write": SERVED["write"] + TRUE["kib"] / 8,
        "close": 3_800,
    }
    cold = {name: ns * idle_us + COOLED.get(name, 0) for name, ns in COOLS_US.items()}
    if bench == "serve_paced":
        cold["request"] = cold["data"]
        ns = {name: warm_ns + cold[name] for name, warm_ns in warm.items()}
    else:
        ns = {name: warm[name] + cold[name] for name in ("read", "write")}
        ns["request"] = TRUE["entry"] + TRUE["later"] + TRUE["callback"] + cold["data"]
    prefix = bench.removeprefix("serve_")
    ns["idle"] = 1_000 * idle_us + 10
    return {f"{prefix}_{name}": {"median": price} for name, price in ns.items()}


def slept(bench: str, given: dict[str, Any]) -> asleep.Lines:
    """Return the lines of a bench of threads or of io_uring."""
    calls = {
        name.removeprefix("serve_"): fields["median"]
        for name, fields in served(DEFAULTS["serve_calls"]).items()
    }
    sleep_ns = TRUE["sleep"] + TRUE["wake"]
    return asleep.lines(bench, given, calls, floor=TRUE["floor"], slept=sleep_ns)


def results_of(  # noqa: PLR0911, PLR0912 (one a family)
    command: str,
) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Return what a command line of `micro` would print: its parameters, its lines."""
    bench, *options = shlex.split(command)
    family, _, kind = bench.partition("_")
    given = dict(DEFAULTS.get(bench, DEFAULTS.get(family, {})))
    for option, value in zip(options[::2], options[1::2], strict=True):
        given[option.removeprefix("--").replace("-", "_")] = (
            int(value) if value.isdigit() else value
        )
    if bench == "serve_calls":
        return given, served(given)
    if bench == "serve_crowded":
        more_ns = {256: 900, 1024: 2_000, 4000: 2_500}[int(given["batch"])]
        return given, {bench: {"median": more_ns}}
    if bench == "serve_kept":
        more_ns = {256: 500, 1024: 1_500, 1536: 2_500}[int(given["n"])]
        n_of = {"few_interrupts": 0.03, "many_interrupts": 0.01}
        saved_ns = 0.02 * TRUE["entry"]
        received = {"median": 0.4 * more_ns - saved_ns, **n_of}
        return given, {"kept_received": received, "kept_served": {"median": 0.6 * more_ns, **n_of}}
    if bench in asleep.BENCHES:
        return given, slept(bench, given)
    if bench == "interrupt_way":
        return given, on_its_way()
    if bench == "packets_leave":
        return given, leaving()
    if bench == "lone_connection":
        known = {"open": TRUE["syn_cold"], "bare": 0, "calls": TRUE["accept_cold"], "awake": 0}
        return given, {f"lone_{name}": {"median": 20_000 + ns} for name, ns in known.items()}
    if bench in ("serve_paced", "serve_asked"):
        return given, paced(bench, int(given["pause_us"]))
    if bench == "client_calls":
        names = ("connect", "send", "receive", "close")
        return given, {f"client_{name}": {"median": TRUE[name]} for name in names}
    if family == "wait":
        return given, told.waits(bench, given)
    if family == "signals" or kind.startswith("signal"):
        return given, told.signalled(bench, given)
    if bench == "descriptor_passed":
        return given, told.passed()
    if bench == "watch_calls":
        prices = {"add": ADD_NS, "delete": DELETE_NS}
        return given, {
            f"watch_{name}": {"median": grown(ns + told.OWN_NS, int(given["n"]))}
            for name, ns in prices.items()
        }
    fields = {"median": TRUE.get(bench, 20.0)}
    if family == "interrupt":
        fields = interrupted(kind, given)
    elif bench in ("write_flights", "cache_refill"):
        fields = busied(bench, given)
    elif family == "epoll":
        fields = epolled(kind, given)
    elif family in ("pingpong", "handshake"):
        fields = tripped(bench, given)
    elif kind in ("scan", "first", "ready", "sparse"):
        fields = scanned(family, kind, given)
    return given, {bench: fields}


def micro_rounds(
    n_rounds: int = 1,
    *,
    noise: Callable[[], float] = lambda: 1.0,
    commands: list[str] | None = None,
    steering: str = "namespaces",
) -> list[MicroResult]:
    """Return what a campaign would have measured if the costs were those above."""
    rows = []
    for number in range(n_rounds):
        for command in commands or bench_commands():
            parameters, lines = results_of(command)
            for bench, fields in lines.items():
                ns = fields["median"] * noise()
                rows.append(
                    MicroResult(
                        date=f"2025-11-20T0{number}:00:00+00:00",
                        code="0",
                        bench=bench,
                        command=command,
                        parameters=parameters,
                        round=number,
                        unit="ns",
                        operations=1,
                        steering=steering,  # type: ignore[call-arg]
                        **{"p10": ns, "p90": ns, **fields, "median": ns},  # type: ignore[arg-type]
                    )
                )
    return rows
