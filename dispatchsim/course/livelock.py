"""Lesson 8: a kernel that only receives packets, and four ways to share its CPU.

    packet ──► interrupt ──► queue ──► protocol ──► socket ──► server
    interrupts   each packet preempts all other work: in the end nothing is finished
    softirq      one interrupt handles all packets that have arrived
    ksoftirqd    after some packets a thread takes over, which must share the CPU
    polling      the kernel polls for packets in a share of the time; the server has the rest

Sources: Mogul and Ramakrishnan 1997, "Eliminating receive livelock in an interrupt-driven kernel",
ACM Transactions on Computer Systems 15(3), §§4 to 7; Linux kernel/softirq.c, net/core/dev.c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..scenario.scenario import Scenario
from .drawing import Picture, stacked_figure
from .exercises import HiddenAnswer, answer
from .experiments import Experiment, cases_over, experiment, open_loop, scenario

if TYPE_CHECKING:
    import pandas as pd

FLOODS_PER_S = (0, 100_000, 200_000, 400_000, 800_000)
RATE_PER_S = 4_000
INTERRUPTS, SOFTIRQ = "interrupts", "softirq"
THREAD, POLLING = "softirq, ksoftirqd", "polling, 75%"
KERNELS: dict[str, dict[str, Any]] = {
    INTERRUPTS: {"packets": "interrupts", "receive_queue": 50},
    SOFTIRQ: {"packets": "softirq", "softirq_budget": 0},
    THREAD: {"packets": "softirq", "softirq_budget": 64},
    POLLING: {"packets": "polling", "receive_queue": 50},
}
PROFILE = "epyc-family25-2cpu-linux-6.18"
_SERVER = ("user", "accept", "read", "write", "close", "watch", "rewatch", "unwatch", "wait")
_PARTS = {
    "the server": (*_SERVER, "sleep", "wake"),
    "packets, at interrupts": ("interrupt", "interrupt_idle", "interrupt_other"),
    "packets, by a thread": ("ksoftirqd",),
    "idle": ("idle",),
}


def floods(
    floods_per_s: Sequence[float] = FLOODS_PER_S,
    kernels: Mapping[str, Mapping[str, Any]] = KERNELS,
) -> Experiment:
    """Return the throughput of a web server by the rate of datagrams that no process reads.

    Parameters
    ----------
    floods_per_s:
        Datagrams per second.
    kernels:
        Keys of a scenario's section [machine], by the name of the kernel.
    """

    def asked(machine: Mapping[str, Any], flood_per_s: float) -> Scenario:
        return scenario(
            server={"mechanism": "epoll_level"},
            load=open_loop(RATE_PER_S),
            machine={"profile": PROFILE, **machine},
            run={"duration": "150 ms", "warm_up": "50 ms", "replications": 1},
            **({"flood": {"rate": f"{flood_per_s}/s"}} if flood_per_s else {}),
        )

    return experiment(
        f"{RATE_PER_S:,} requests per second, and a flood",
        cases_over(kernels, floods_per_s, asked),
        figures=["answered_per_s", "latency_p50_ms", "packet_drops"],
        axis="datagrams per second",
        series="kernel",
    )


def cpu_shares(of: Experiment, flood_per_s: float) -> dict[str, dict[str, float]]:
    """Return the use of the CPU at one flood, in percent, by kernel."""
    shares = {}
    for name in of.names:
        by = of.point(name, flood_per_s).summaries[0].cpu.by_activity_ns
        whole = sum(by.values())
        parts = {part: 100 * sum(by[a] for a in _PARTS[part]) / whole for part in _PARTS}
        shares[name] = {**parts, "others": max(0.0, 100 - sum(parts.values()))}
    return shares


def who_had_the_cpu(of: Experiment, flood_per_s: float) -> Picture:
    """Return the picture of `cpu_shares`."""
    title = f"Use of the CPU at {flood_per_s:,.0f} datagrams per second"
    shares = cpu_shares(of, flood_per_s)
    text = "; ".join(
        f"{name}: " + ", ".join(f"{part} {share:.0f}%" for part, share in parts.items())
        for name, parts in shares.items()
    )
    return Picture(stacked_figure(title, "CPU time (%)", shares, least=0.5), f"{title}. {text}")


def drops(of: Experiment, flood_per_s: float) -> pd.DataFrame:
    """Return the packets that each kernel dropped at one flood, and its interrupts."""
    import pandas as pd

    named = {"packets dropped": "packet_drops", "interrupts": "interrupts"}
    rows = [
        {title: round(of.value(figure, name, flood_per_s)) for title, figure in named.items()}
        for name in of.names
    ]
    return pd.DataFrame(rows, index=pd.Index(of.names, name="kernel"))


def answer_for_where(of: Experiment) -> HiddenAnswer:
    """Return the answer to "Where are packets dropped, and why does the place matter?".

    Parameters
    ----------
    of:
        From `floods`.
    """
    return answer(
        "With interrupts {dropped} packets were dropped. {paid} of them had raised an interrupt, "
        "which took all of the CPU, and found the protocol's queue full, because it was never "
        "emptied. The others found no room on the device, which could not interrupt any faster. "
        "Requests of the server's own clients were among them: {served} per second were served. "
        "The polling kernel drops packets, too ({polled}), but only on the device, before any work "
        "is spent on them, and serves {replies} requests per second. Drop early, or not at all.",
        dropped=of.value("packet_drops", INTERRUPTS, 800_000),
        paid=of.value("interrupts", INTERRUPTS, 800_000),
        served=of.value("answered_per_s", INTERRUPTS, 800_000),
        polled=of.value("packet_drops", POLLING, 800_000),
        replies=of.value("answered_per_s", POLLING, 800_000),
    )


def answer_for_share() -> HiddenAnswer:
    """Return the answer to "Is polling for 95% of the time better than for 50%?"."""
    shares = {
        f"polling, {percent}%": {**KERNELS[POLLING], "polling_share": percent / 100}
        for percent in (50, 75, 95)
    }
    of = floods((100_000, 800_000), shares)
    figures = {
        f"at_{percent}": of.value("answered_per_s", f"polling, {percent}%", 800_000)
        for percent in (50, 75, 95)
    }
    return answer(
        "At 800,000 datagrams per second the server serves {at_50}, {at_75} and {at_95} requests "
        "per second with 50, 75 and 95% polling. A request needs both: its packets must get "
        "through the flood, and then the server needs the CPU. The best share depends on which of "
        "the two runs out first, so a quota is a guess about the load.",
        shows=of,
        **figures,
    )
