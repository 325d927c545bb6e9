"""Mogul and Ramakrishnan, "Eliminating Receive Livelock in an Interrupt-Driven Kernel", 1996.

The paper has a router whose packets pass the kernel alone or a user process (screend). Here the
kernel handles datagrams, beside a server and a computing process. USENIX ATC.
"""

from __future__ import annotations

from .paper import RATE, Choice, Claim, Condition, described
from .quantities import Curve, falls_below, near

INTERRUPTS, POLLING = "each packet interrupts", "polling"
_LIMITS = (0.25, 0.5, 0.75)
_RATES = (
    1000.0,
    2000.0,
    3000.0,
    4000.0,
    5000.0,
    6000.0,
    8000.0,
    10000.0,
    12000.0,
    14000.0,
    40000.0,
)
_FEW = (1000.0, 3000.0, 5000.0, 8000.0, 14000.0, 40000.0)
_ARRIVALS = Choice("flood.arrivals", ("constant", "poisson"), "one generator in a loop, or bursts")


def _limited(share: float) -> str:
    return f"polling, at most {share:.0%}"


FLOOD = Condition(
    name="flood",
    scenario="mogul_ramakrishnan_1996",
    servers={
        INTERRUPTS: {"machine.packets": "interrupts"},
        POLLING: {"machine.packets": "polling", "machine.polling_share": 1.0},
        **{
            _limited(share): {"machine.packets": "polling", "machine.polling_share": share}
            for share in _LIMITS
        },
    },
    axis="flood.rate",
    at=_RATES,
    unit="/s",
    few_at=_FEW,
    unstated=(_ARRIVALS,),
    seconds=6,
    few_seconds=3,
    warm_up_s=1,
)
SERVED = FLOOD._replace(
    name="flood beside a server",
    servers={
        name: {**keys, "load.rate": "300/s", "machine.busy_processes": 0}
        for name, keys in FLOOD.servers.items()
    },
)


def _claims() -> tuple[Claim, ...]:
    def handled(name: str) -> Curve:
        return FLOOD.curve("datagrams", name)

    def progress(name: str) -> Curve:
        return FLOOD.curve("other_cpu", name)

    def replies(name: str) -> Curve:
        return SERVED.curve("reply_rate", name)

    return (
        Claim("MR96-01", "V", "unmodified kernel", "packets handled",
              "rise with the rate up to a peak, then fall to nothing: receive livelock",
              (handled(INTERRUPTS).first() >= (1 - RATE) * 1000.0,
               handled(INTERRUPTS).last() <= 0.05 * handled(INTERRUPTS).max()),
              "a twentieth of the peak is nothing", "§6.2, figure 6-1"),
        Claim("MR96-02", "V", "polling with a quota", "packets handled",
              "stay at the peak at any higher rate",
              (handled(POLLING).last() >= (1 - RATE) * handled(POLLING).max(),),
              "10%", "§6.5, figure 6-3"),
        Claim("MR96-03", "V", "both", "packets handled",
              "the peak with polling is no lower than without",
              (handled(POLLING).max() >= handled(INTERRUPTS).max(),), "none",
              "§6.5, figure 6-3"),
        Claim("MR96-04", "V", "user's process", "CPU it gets",
              "without a limit it gets nothing at high rates",
              (progress(INTERRUPTS).last() <= 0.05, progress(POLLING).last() <= 0.05),
              "a twentieth is nothing", "§7, figure 7-1"),
        Claim("MR96-05", "V", "user's process", "CPU it gets",
              "with a limit on packets it gets about what the limit leaves",
              tuple(x for share in _LIMITS
                    for x in near(progress(_limited(share)).last(), 1 - share, RATE)),
              "10 points of the CPU", "§7, figure 7-1"),
        Claim("MR96-06", "V", "user's process in the path", "requests replied to",
              "replies stop at a lower packet rate than the kernel's own work",
              (falls_below(replies(INTERRUPTS), 0.1) < falls_below(handled(INTERRUPTS), 0.1),),
              "a tenth of the peak is left where it stops", "§6.2, figure 6-1"),
    )  # fmt: skip


PAPER = described(
    "mogul_ramakrishnan_1996",
    conditions=(FLOOD, SERVED),
    claims=_claims(),
)
