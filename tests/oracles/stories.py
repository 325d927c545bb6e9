"""Random stories: what a program does with its descriptors, and what arrives meanwhile.

Acts and arrivals are drawn as numbers, and read as what is possible then: a descriptor that is in
the set cannot be added once more. So few draws make a story, and each can be made smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st
from tests.oracles.driving import cost_names
from tests.oracles.machine import IN, OUT, Act, Arrival, Story

_N_MAX = 7
_OTHERS = ("add", "add", "add", "wait", "drain", "compute")
_WATCHED = ("wait", "wait", "wait", "drain", "take", "change", "renew", "compute")
_STATES = st.lists(st.sampled_from((IN, 0, OUT, IN | OUT)), min_size=1, max_size=_N_MAX - 1)
_ACTS = st.lists(
    st.tuples(st.integers(0, 23), st.integers(0, 59), st.sampled_from((IN, OUT, IN | OUT))),
    min_size=6,
    max_size=24,
)
_GAPS_NS = st.sampled_from((0, 1, 2, 3, 4, 5, 7, 10, 14, 30))
"""As long as calls, so that what arrives meets the middle and the end of a scan."""
_ARRIVALS = st.lists(
    st.tuples(_GAPS_NS, st.integers(0, _N_MAX - 1), st.integers(1, 3)), min_size=3, max_size=16
)
_COSTS = st.lists(st.sampled_from((1, 0, 2, 3, 4, 5, 8, 13)), min_size=18, max_size=18)
_WATCHED_FIRST = st.integers(0, (1 << _N_MAX) - 1)
_MOST = st.sampled_from((1, 2, 3, 1024))


@st.composite
def stories(
    draw: st.DrawFn,
    mechanism: str,
    *,
    options: Sequence[Mapping[str, int]] = ({},),
    free: Sequence[str] = (),
    removes: bool = True,
    changes_at_once: bool = True,
) -> Story:
    """Draw a story of *mechanism* with one of *options*, in which the costs *free* are 0.

    Without *removes* no descriptor leaves the set; without *changes_at_once* a change of interest
    is followed by a wait.
    """
    states = (0, *draw(_STATES))
    n, first = len(states), draw(_WATCHED_FIRST)
    watched = {fd for fd in range(1, n) if first >> fd & 1}
    acts = [Act("add", fd, OUT if first & 1 and fd % 2 else IN) for fd in sorted(watched)]
    for kind, number, bits in draw(_ACTS):
        read = _read(kind, number, bits, n, watched)
        if read.what == "renew" and not removes:
            read = Act("wait")
        watched ^= {read.fd} if read.what in ("add", "renew") else set()
        at_once = changes_at_once or read.what != "change"
        acts += [read] if at_once else [read, Act("wait")]
    arrivals, at_ns = [], 1
    for gap_ns, number, bits in draw(_ARRIVALS):
        at_ns += gap_ns
        arrivals.append(Arrival(at_ns, number % n, bits if number % n else IN))
    *costs, sleep_ns, wake_ns = draw(_COSTS)
    names = cost_names(mechanism)
    return Story(
        states,
        (*acts, Act("wait")),
        tuple(arrivals),
        draw(_MOST),
        {name: 0 if name in free else ns for (name, _), ns in zip(names, costs, strict=False)},
        sleep_ns,
        wake_ns,
        draw(st.sampled_from(list(options))),
        5_000,
    )


def _read(kind: int, number: int, bits: int, n: int, watched: set[int]) -> Act:
    """Return what the numbers stand for, where *watched* of *n* are in the set."""
    fd = 1 + number % (n - 1)
    choice = _WATCHED if fd in watched else _OTHERS
    what = choice[kind % len(choice)]
    if what == "wait":
        return Act("wait")
    if what == "compute":
        return Act("compute", ns=number)
    if what in ("drain", "take"):
        return Act(what, number % n, bits)
    if what == "renew":
        return Act("renew", fd, bits)
    return Act(what, fd, OUT if bits == OUT else IN)
