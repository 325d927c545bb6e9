"""The K6-2 of Provos and Lever 2000 and of Provos, Lever and Tweedie 2000.

Neither paper gives a time. Three rows of the first bound what a connection costs on it:

    PL00-02   thttpd on /dev/poll keeps 1100/s, the end of the axis  ──► all costs
    PL00-01   stock thttpd tracks what is offered at first, and breaks down before that end
                                                                     ──► a trip of its loop
    PL00-05   it is poor at 500/s with 501 inactive                  ──► what poll scans

Our proportions alone put the first two at the same rate, poll even 3% ahead, as with a handful of
descriptors neither scan costs anything. As the one row holds and the other does not, the limit of
both is taken to be near the end of the axis. The second row then sets what ours does not do in a
trip: stock thttpd walks the table of all connections that it may ever have, to build the array and
again to find who is ready, whoever is in it (thttpd 2, main loop; on /dev/poll it need not).

How much of a connection is the server's own code no row says: ours does next to nothing, thttpd and
phhttpd parse, look up and log. So it is drawn, between 2% and 40%, before all else. Our proportions
then have poll answer 300 to 410/s with 501 inactive, and the third row takes 300 to 430/s.
"""

from __future__ import annotations

from ...sim.figures.metrics import Summary
from ...sim.load.workload import Load
from ...sim.state.program_settings import ProgramSettings
from ...sim.state.settings import RunSettings
from ...sim.state.units import MILLISECOND_NS, SECOND_NS
from .machine import SINCE_2_6_30, PeriodMachine, Step
from .operation import Operation

_SIX_KB = Load("closed", users=100, reply_bytes=6_344, think_ns=5 * MILLISECOND_NS)
"""Clients enough to keep the server busy; 6 KB, and a header whose size is assumed."""
_SETTLED_NS = 4 * SECOND_NS
_ONE_BY_ONE = RunSettings(program=ProgramSettings(accept_limit=1))
_STOCK = RunSettings(program=ProgramSettings(accept_limit=1, array_rebuilt=True))


def _rate(summary: Summary) -> float:
    return summary.throughput_per_s


def _own_share(summary: Summary) -> float:
    """Return what share of its CPU time the server spends in its own code."""
    return summary.cpu.by_activity_ns["user"] / summary.cpu.busy_ns


K6 = PeriodMachine(
    name="k6-2-400-linux-2.2",
    about="AMD K6-2 of 400 MHz, one CPU, 64 MB, of Provos and Lever 2000",
    kernel="2.2.14, 2.2.16",
    mechanisms=("poll", "dev_poll", "rt_signals", "sigtimedwait4"),
    absent=SINCE_2_6_30,
    alike={"poll.scan": ("poll.scan", "rt_signals.poll", "sigtimedwait4.poll")},
    delay_ns=(50_000.0, 150_000.0),  # a switch of Fast Ethernet, with cards of that time
    steps=(
        Step(
            "own code",
            ("application.request_ns",),
            Operation(
                "dev_poll",
                _own_share,
                _SIX_KB,
                _ONE_BY_ONE,
                idle=1,
                window_ns=_SETTLED_NS,
            ),
            0.21,
            0.9,  # 2 to 40%
        ),
        Step(
            "PL00-02",
            ("*",),
            Operation(
                "dev_poll",
                _rate,
                _SIX_KB,
                _ONE_BY_ONE,
                idle=1,
                window_ns=_SETTLED_NS,
            ),
            1_100.0,
            0.05,  # it answers 95% of what is offered, or somewhat more than all
            rises=False,
        ),
        Step(
            "PL00-01",
            ("poll.call_ns",),
            Operation("poll", _rate, _SIX_KB, _STOCK, idle=1, window_ns=_SETTLED_NS),
            845.0,
            0.17,  # 700 to 990/s: above the first points, and a tenth short of the last
            rises=False,
        ),
        Step(
            "PL00-05",
            ("poll.scan", "poll.register", "poll.release", "*.poll"),
            Operation("poll", _rate, _SIX_KB, _STOCK, idle=501, window_ns=_SETTLED_NS),
            365.0,
            0.18,  # 300 to 430/s: in an open loop that asks for 500/s up to 450/s, a tenth short
            rises=False,
        ),
    ),
)
