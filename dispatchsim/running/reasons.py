"""Why a verdict is what it is, and what it hides: sentences for people.

runs at central costs ─► who failed, and of what ─┐
who is left behind ──────┼─► sentences under the table
when nobody was answered ┘
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..sim.figures.metrics import OVERLOADED_SHARE, Summary, Verdict

_IDLE_SHARE = 0.1
"""Of the CPU: with more to spare it is not for want of CPU that clients fail."""
_PAUSE_SEEN = 200
"""Replies a second; of fewer an interval may have none by chance."""
_OF_CLIENTS = ("descriptors", "ports")


def reasons(summaries: Sequence[Summary]) -> list[str]:
    """Return what to know of the verdicts of runs at central costs."""
    found = []
    if failed := [summary for summary in summaries if sum(summary.errors.values()) > 0]:
        found.append(_who_failed(failed))
    overloaded = [summary for summary in summaries if summary.verdict is Verdict.OVERLOADED]
    if any(not _fails(s) or s.fates["open"] > OVERLOADED_SHARE * s.offered for s in overloaded):
        found.append(
            "more connections were left unanswered at the end than at the beginning: the server "
            "falls behind and latencies say how long the run was, or the run is too short to "
            "tell (lengthen run.duration)"
        )
    rates = [summary.reply_rate_per_s for summary in summaries]
    if any(rate.min == 0 and rate.mean > _PAUSE_SEEN for rate in rates):
        found.append(
            "for some time nobody was answered (lowest reply rate 0/s): quantiles hold who "
            "waited meanwhile, and the verdict says how it ended"
        )
    return found


def _fails(summary: Summary) -> bool:
    """Return whether failed connections make an overload by themselves."""
    return sum(summary.errors.values()) > OVERLOADED_SHARE * summary.offered


def _who_failed(failed: Sequence[Summary]) -> str:
    errors = Counter[str]()
    for summary in failed:
        errors.update(summary.errors)
    share = errors.total() / max(1, sum(summary.offered for summary in failed))
    kinds = ", ".join(f"{n} {word}" for word, n in errors.most_common() if n > 0)
    sentence = f"{share:.2%} of the connections failed ({kinds})"
    if sum(errors[word] for word in _OF_CLIENTS) > 0.5 * errors.total():
        return (
            f"{sentence}: most of them for want of descriptors or ports of the clients, which "
            "says how long connections last, not what the server can do"
        )
    if all(_fails(s) and s.cpu_busy < 1 - _IDLE_SHARE for s in failed):
        return f"{sentence}, and not for want of CPU: {failed[0].cpu_busy:.0%} of it was busy"
    return sentence
