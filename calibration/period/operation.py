"""An operating point that a paper states a figure of, simulated at given costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...models.simulate import simulate
from ...sim.figures.metrics import Summary, summarise
from ...sim.load.workload import Load
from ...sim.state.client_settings import ClientSettings, Closing, NetworkSettings
from ...sim.state.settings import RunSettings
from ...sim.state.units import MICROSECOND_NS, SECOND_NS
from ..profiles.cost_profile import Profile

SEED = 1
WARM_UP_NS = SECOND_NS
LAN_DELAY_NS = 50 * MICROSECOND_NS
_ROWS_PER_S = 30_000


class Operation(NamedTuple):
    """A server and its clients, and the figure that is known of them.

    Attributes
    ----------
    mechanism:
        How the server learns of readiness.
    figure:
        What of the run's summary the paper states.
    load:
        Who comes. Clients close by a FIN.
    server, idle, link_bits_per_s:
        The server's settings, silent connections, and the link each way (0: no bound).
    warm_up_ns, window_ns:
        How long it is watched, after how long.
    """

    mechanism: str
    figure: Callable[[Summary], float]
    load: Load
    server: RunSettings = RunSettings()
    idle: int = 0
    link_bits_per_s: int = 100_000_000
    window_ns: int = SECOND_NS
    warm_up_ns: int = WARM_UP_NS

    def simulated(self, profile: Profile) -> float:
        """Return the figure at the costs and the delay of *profile*."""
        costs = profile.costs(self.mechanism, open_connections=self.idle, free_clients=True)
        duration_ns = self.warm_up_ns + self.window_ns
        settings = self.server._replace(
            network=NetworkSettings(
                delay_ns=profile.network_delay_ns,
                up_bits_per_s=self.link_bits_per_s,
                down_bits_per_s=self.link_bits_per_s,
            ),
            client=ClientSettings(idle=self.idle, closing=int(Closing.FIN)),
            duration_ns=duration_ns,
            warm_up_ns=self.warm_up_ns,
            sample_every_ns=0,
        )
        seconds = duration_ns / SECOND_NS
        rows = round(_ROWS_PER_S * seconds / self.load.requests) + 4 * self.load.users
        trace = self.load.trace(SEED, seconds, rows)
        return self.figure(summarise(simulate(self.mechanism, trace, costs, settings)))


def ns_per_reply(*activities: str) -> Callable[[Summary], float]:
    """Return the figure: ns of the server's CPU in *activities* for each reply."""

    def figure(summary: Summary) -> float:
        spent = summary.cpu.by_activity_ns
        return sum(spent[name] for name in activities) / max(1, summary.calls["replies"])

    return figure


def share(*activities: str) -> Callable[[Summary], float]:
    """Return the figure: what part of the CPU's busy time goes into *activities*."""

    def figure(summary: Summary) -> float:
        spent = summary.cpu.by_activity_ns
        return sum(spent[name] for name in activities) / max(1, summary.cpu.busy_ns)

    return figure
