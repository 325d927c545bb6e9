"""The gaps of the host before a run: each CPU's recording, and the run's start in it.

Sources of the recordings: calibration/records/gap_records.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from ..load.streams import generator
from ..state.costs import Costs
from ..state.host_gaps import NO_GAPS, HostGaps
from ..state.settings import RunSettings


def gap_columns(settings: RunSettings, costs: Costs) -> dict[str, tuple[int, ...]]:
    """Return the columns of the world that hold recordings, by name."""
    server, client = settings.server_gaps, _of_clients(settings, costs)
    return {
        "server_gap_at_ns": server.at_ns,
        "server_gap_length_ns": server.length_ns,
        "client_gap_at_ns": client.at_ns,
        "client_gap_length_ns": client.length_ns,
    }


def gap_numbers(settings: RunSettings, costs: Costs) -> dict[str, Any]:
    """Return the world's other values about recordings, by name."""
    server, client = settings.server_gaps, _of_clients(settings, costs)
    return {
        "n_server_gaps": len(server.at_ns),
        "server_gap_period_ns": server.period_ns,
        "n_client_gaps": len(client.at_ns),
        "client_gap_period_ns": client.period_ns,
        "client_gaps_from_ns": _begins_at_ns(client, settings.seed, "client gaps", 1)[0],
    }


def first_gaps(settings: RunSettings) -> Iterator[dict[str, Any]]:
    """Yield for each CPU of the server its first gap in the recording, and the shift in time.

    A gap that is on as the run begins is left out.
    """
    gaps = settings.server_gaps
    for from_ns in _begins_at_ns(gaps, settings.seed, "server gaps", settings.machine.cpus):
        first = bisect_left(gaps.at_ns, from_ns)
        if first == len(gaps.at_ns):
            yield {"next_gap": 0, "gap_shift_ns": gaps.period_ns - from_ns}
        else:
            yield {"next_gap": first, "gap_shift_ns": -from_ns}


def _of_clients(settings: RunSettings, costs: Costs) -> HostGaps:
    """Return the gaps of the clients' CPU: clients without costs are on machines of their own."""
    return settings.client_gaps if any(costs.client) else NO_GAPS


def _begins_at_ns(gaps: HostGaps, seed: int, stream: str, n: int) -> list[int]:
    """Return the start in the recording for each of *n* CPUs."""
    if not gaps.at_ns or not gaps.is_drawn:
        return [0] * n
    return [int(at_ns) for at_ns in generator(seed, stream).integers(gaps.period_ns, size=n)]
