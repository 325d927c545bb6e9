"""The parts of a request's time that a scenario states: past errors apply to them less, or not.

    CPU time     ├─ stated: the application ─┤├─ costs of the profile ─┤
    response     ├─ stated: round trips ─────┤├─ all else, as long as the CPU time of a request ─┤

Past errors are of runs without application work. Their median belongs to the profile's costs: it is
reduced by the share of CPU time that `server.request_cpu`, `server.reply_cpu_per_kb` and
`server.connection_cpu` take. Their spread applies to all of the CPU time
(`Allowance.beside_work`). No past error applies to `network.delay` and `path.delay`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..scenario.cpus import threads_of
from ..scenario.metric import Kind
from ..scenario.metrics import METRICS
from ..scenario.percentiles import percentile_of
from ..scenario.scenario import Scenario
from ..sim.load.reply_sizes import mean_bytes
from ..sim.state.client_classes import ClientClass
from ..sim.state.kinds import NONE
from ..sim.state.units import PERMILLE, SECOND_NS
from ..validation.scoring.misses import THROUGHPUT, stated_share


class Stated(NamedTuple):
    """The stated parts.

    Attributes
    ----------
    share:
        Share of the CPU time of a request.
    wait_ns:
        Time of a response's packets on the link, in ns.
    path_waits:
        Their extra time on each path, in ns and ascending, and the path's share of requests.
    """

    share: float = 0.0
    wait_ns: float = 0.0
    path_waits: tuple[tuple[float, float], ...] = ()

    def measured(self, figure: str, value: float, error: float) -> float:
        """Return the measured value for a simulated *value* if the forecast has this *error*.

        *error* is the logarithm of measured over forecast for the metric *figure*, beside the
        application's work (`Allowance.beside_work`). It does not apply to stated times.

        >>> round(Stated(wait_ns=100.0).measured("p99_ns", 300.0, math.log(0.5)), 6)
        200.0
        """
        return self._scaled(figure, value, math.exp(error))

    def simulated(self, figure: str, value: float, error: float) -> float:
        """Return the simulated value for a measured *value*: the inverse of `measured`."""
        return self._scaled(figure, value, math.exp(-error))

    def _scaled(self, figure: str, value: float, factor: float) -> float:
        if figure == THROUGHPUT:
            return value * factor
        if METRICS[figure].kind is not Kind.TIME:
            return min(1.0, value * factor)  # a share of the CPU
        wait_ns = min(self.wait_of(figure), value)
        return wait_ns + (value - wait_ns) * factor

    def wait_of(self, figure: str) -> float:
        """Return the stated part of the response time *figure*, in ns.

        For a percentile it is that percentile of path delays, weighted by requests on each path.

        >>> Stated(0.0, 10.0, ((0.0, 0.9), (500.0, 0.1))).wait_of("p50_ns")
        10.0
        >>> Stated(0.0, 10.0, ((0.0, 0.9), (500.0, 0.1))).wait_of("p99_ns")
        510.0
        """
        known = percentile_of(figure)
        if known is None:
            return self.wait_ns + sum(wait_ns * share for wait_ns, share in self.path_waits)
        upto = 0.0
        for wait_ns, share in self.path_waits:
            upto += share
            if upto >= known.share - 1e-9:
                return self.wait_ns + wait_ns
        return self.wait_ns


def stated_of(scenario: Scenario, per_s: float, cpus_used: float) -> Stated:
    """Return the parts of a request's time that *scenario* states.

    Parameters
    ----------
    per_s:
        Connections per second, or requests per second on persistent connections, as load.rate.
    cpus_used:
        Mean number of the machine's CPUs that were not idle.
    """
    load = scenario.load
    is_kept = load.connections is not None
    if load.users is not None and scenario.client_classes:
        # Users of fast classes send more of the requests. The share of each class is unknown, so
        # only the way to the link and back is stated.
        return Stated(wait_ns=2.0 * (scenario.network.delay or 0))
    asked = _asked(scenario)
    share = float(stated_share(_work_ns(scenario, asked), per_s, cpus_used))
    opens = scenario.network.set_up if not is_kept and scenario.requests_each == 1 else 0
    trips = 2.0 * (1 + opens)
    waits = sorted((trips * delay_ns, share) for delay_ns, share in _path_delays(scenario, asked))
    return Stated(share, trips * (scenario.network.delay or 0), tuple(waits))


def most_per_s(scenario: Scenario) -> float:
    """Return the load.rate at which the application alone takes all CPUs; infinite without work.

    Users of fast classes send more of the requests, so with client classes in a closed loop it is
    infinite, too.
    """
    if scenario.load.users is not None and scenario.client_classes:
        return math.inf
    work_ns = _work_ns(scenario, _asked(scenario))
    n_cpus = min(scenario.machine.cpus, threads_of(scenario))
    return n_cpus * SECOND_NS / work_ns if work_ns > 0 else math.inf


def _work_ns(scenario: Scenario, asked: list[tuple[float, ClientClass]]) -> float:
    """Return the mean CPU time of the application for each of load.rate, in ns."""
    server = scenario.server
    n_bytes = sum(share * mean_bytes(each.reply_bytes, each.reply_mix) for share, each in asked)
    each_ns: float = server.request_cpu_law.mean + server.reply_cpu_per_kb * n_bytes / 1_000
    if scenario.load.connections is None:
        each_ns = scenario.requests_each * each_ns + server.connection_cpu
    return each_ns


def _asked(scenario: Scenario) -> list[tuple[float, ClientClass]]:
    """Return the classes of clients, each with its share of requests; one if all are alike."""
    classes, load = scenario.client_classes, scenario.workload
    if not classes:
        alike = ClientClass(PERMILLE, reply_bytes=load.reply_bytes, reply_mix=load.reply_mix)
        return [(1.0, alike)]
    if scenario.load.connections is not None:
        return [(each.requests_permille / PERMILLE, each) for each in classes]
    numbers = [each.share_permille * each.requests.mean for each in classes]
    return [(n / sum(numbers), each) for n, each in zip(numbers, classes, strict=True)]


def _path_delays(
    scenario: Scenario, asked: list[tuple[float, ClientClass]]
) -> list[tuple[int, float]]:
    """Return the delay of each path, one way in ns, and its share of all requests."""
    return [
        (
            path.delay,
            sum(
                share * (each.path == i if each.path != NONE else path.share or 0.0)
                for share, each in asked
            ),
        )
        for i, path in enumerate(scenario.path)
    ]
