"""A check of a fitted profile: interrupts at its fit points, simulated beside counted.

The fit uses throughputs only. Closed loops settle in rhythms with more or fewer interrupts, and
two rhythms may have the same throughput: then the costs of one of them are wrong.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from ..profiles.cost_profile import Profile
from ..records.measured_runs import RunRecord
from ..records.precision import by_point
from ..running.preparation import open_connections
from .request_fit import SIMULATED_NS, simulated_summary

_FACTOR_SAID = 1.3
"""The factor between simulated and counted interrupts from which on they disagree. Of the shipped
profiles the largest is 1.18, of a Xeon that shared its core; with wrong costs it was 3 once."""


def interrupt_warnings(
    profile: Profile, runs: Sequence[RunRecord], *, simulated_ns: int = SIMULATED_NS
) -> Iterator[str]:
    """Yield a sentence for each fit point at which interrupts disagree.

    Parameters
    ----------
    profile:
        A fitted profile.
    runs:
        The runs that the fit used. Those with a count of interrupts are compared.
    simulated_ns:
        Length of the simulated window.
    """
    counting = [run for run in runs if run.result.cpu.n_calls and run.result.replied]
    for point, own in by_point(counting).items():
        counted = statistics.median(run.result.cpu.n_calls / run.result.replied for run in own)
        costs = profile.costs(point.server.mechanism, open_connections=open_connections(point))
        per_s = statistics.median(run.result.reply_rate_per_s.mean for run in own)
        calls = simulated_summary(point, costs, profile, per_s, simulated_ns).calls
        simulated = calls["interrupts"] / max(1, calls["replies"])
        if not counted / _FACTOR_SAID <= simulated <= counted * _FACTOR_SAID:
            yield (
                f"{point.label}: {simulated:.2f} interrupts a reply are simulated, {counted:.2f} "
                "were counted: costs or the model are wrong there; if another guest used the core, "
                "measure again"
            )
