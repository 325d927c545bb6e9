"""The Pentium-III of Chandra and Mosberger 2001."""

from __future__ import annotations

from ...sim.load.workload import Load
from ...sim.state.kernel_settings import LimitSettings
from ...sim.state.program_settings import ProgramSettings
from ...sim.state.settings import RunSettings
from ...sim.state.units import SECOND_NS
from .machine import EMPTY_ACCEPT, SINCE_2_6_30, PeriodMachine, Step
from .operation import Operation

_CONNECTION = (
    "interrupt.syn*",
    "interrupt.ack_ns",
    "interrupt.reset_ns",
    "call.accept*",
    "call.close_ns",
    "*.arm_ns",
    "*.add_ns",
    "*.delete_ns",
)
_SIGNALS = (
    *("arm_ns", "queue_ns", "call_ns", "signal_ns", "event_ns", "lost_ns", "flush_ns"),
    "discard_ns",
)
"""Costs of queued signals, which signal-per-fd shares but for the test of a bit."""
_UNBOUNDED = 100_000  # signals

PENTIUM3 = PeriodMachine(
    name="pentium3-400-linux-2.4",
    about="HP NetServer LPr, Pentium-III 400 MHz, one of two, of Chandra and Mosberger 2001",
    kernel="2.4.0-test7",
    mechanisms=("select", "poll", "dev_poll", "rt_signals", "signal_per_fd"),
    absent=SINCE_2_6_30,
    guesses=(EMPTY_ACCEPT,),
    alike={
        "poll.scan": ("poll.scan", "rt_signals.poll", "signal_per_fd.poll"),
        **{
            f"signals: {name}": (f"rt_signals.{name}", f"signal_per_fd.{name}") for name in _SIGNALS
        },
    },
    delay_ns=(60_000.0, 110_000.0),  # CM01-08: 0.3 ms, of which 0.13 ms are the server's
    steps=(
        Step(
            "CM01-04",
            ("*",),
            Operation(
                "rt_signals",
                lambda s: s.cpu_busy,
                Load(
                    "closed",
                    users=250,
                    requests=20,
                    reply_bytes=292,
                    think_ns=SECOND_NS // 2,
                    think="constant",
                ),
                window_ns=2 * SECOND_NS,
            ),
            0.0667,
            0.05,
        ),
        Step(
            "CM01-19",
            _CONNECTION,
            Operation(
                "rt_signals",
                lambda s: s.throughput_per_s,
                Load("closed", users=256, reply_bytes=201),
                RunSettings(
                    program=ProgramSettings(accept_each_signal=True, remembers=False),
                    limits=LimitSettings(signal_queue=_UNBOUNDED),
                ),
                idle=252,
            ),
            3_200.0,
            0.03,
            rises=False,
        ),
    ),
)
