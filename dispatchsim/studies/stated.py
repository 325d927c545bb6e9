"""What a scenario states of a request's time, and past forecasts could not miss.

    CPU time     ├─ stated: the application ─┤├─ costs of the profile ─┤
    response     ├─ stated: round trips ─────┤├─ all else, as long as the CPU time of a request ─┤

A past error is one of the profile's costs. It leaves alone what `server.request_cpu`,
`server.reply_cpu_per_kb`, `server.connection_cpu` and `network.delay` say.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..scenario.metric import Kind
from ..scenario.metrics import METRICS
from ..scenario.scenario import Scenario
from ..sim.state.units import SECOND_NS

THROUGHPUT = "throughput_per_s"


class Stated(NamedTuple):
    """The parts that are stated.

    Attributes
    ----------
    share:
        Of the CPU time of a request.
    wait_ns:
        Of a response time: what its packets are on their way at least, in ns.
    """

    share: float = 0.0
    wait_ns: float = 0.0

    def measured(self, figure: str, value: float, error: float) -> float:
        """Return what is measured where *value* is simulated and the profile's costs err.

        *error* is the logarithm of measured over forecast of that *figure*.

        >>> round(Stated(share=0.5).measured("cpu_busy", 0.5, math.log(0.8)), 6)
        0.45
        >>> round(Stated(wait_ns=100.0).measured("p99_ns", 300.0, math.log(0.5)), 6)
        200.0
        """
        if figure == THROUGHPUT:
            return value / self._factor(-error)
        return self._scaled(figure, value, self._factor(error))

    def simulated(self, figure: str, value: float, error: float) -> float:
        """Return what is simulated where *value* is measured: the inverse of `measured`."""
        if figure == THROUGHPUT:
            return value * self._factor(-error)
        return self._scaled(figure, value, 1 / self._factor(error))

    def _factor(self, error: float) -> float:
        return self.share + (1 - self.share) * math.exp(error)

    def _scaled(self, figure: str, value: float, factor: float) -> float:
        if METRICS[figure].kind is not Kind.TIME:
            return min(1.0, value * factor)  # a share of the CPU
        wait_ns = min(self.wait_ns, value)
        return wait_ns + (value - wait_ns) * factor


def stated_of(scenario: Scenario, per_s: float, cpus_used: float) -> Stated:
    """Return what *scenario* states of a run.

    Parameters
    ----------
    per_s:
        Connections a second; requests where connections are kept: as load.rate.
    cpus_used:
        How many of the machine's CPUs were not idle, in the mean.
    """
    server, load = scenario.server, scenario.load
    is_kept = load.connections is not None
    each_ns = server.request_cpu_law.mean + server.reply_cpu_per_kb * load.reply_size / 1_000
    if not is_kept:
        each_ns = load.requests * each_ns + server.connection_cpu
    busy_ns = cpus_used * SECOND_NS
    share = float(min(1.0, each_ns * per_s / busy_ns)) if busy_ns > 0 else 0.0
    opens = scenario.network.set_up if not is_kept and load.requests == 1 else 0
    return Stated(share, 2.0 * (1 + opens) * (scenario.network.delay or 0))
