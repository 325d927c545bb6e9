"""The papers, in the order of their age, and why claims are not reproduced, if that is known."""

from __future__ import annotations

from . import (
    bruguera_2019,
    chandra_mosberger_2001,
    gammo_2004,
    mogul_ramakrishnan_1996,
    provos_lever_2000,
    provos_lever_tweedie_2000,
)
from .paper import Paper

PAPERS: dict[str, Paper] = {
    paper.name: paper
    for paper in (
        mogul_ramakrishnan_1996.PAPER,
        provos_lever_2000.PAPER,
        provos_lever_tweedie_2000.PAPER,
        chandra_mosberger_2001.PAPER,
        gammo_2004.PAPER,
        bruguera_2019.PAPER,
    )
}
"""By name."""


WHY_NOT: dict[str, str] = {
    "CM01-02": (
        "no scan alone loses this load, as it is paid once for all that is ready: with "
        "hints or without, /dev/poll keeps it unless a call returns at most two to four "
        "results (question /dev/poll), and how many the server asked for is not stated"
    ),
    "CM01-03b": ("as CM01-02: /dev/poll is saturated and keeps its load all the same"),
    "CM01-03": (
        "at 1000/s select takes 98% of the CPU with 250 connections already: with two scans "
        "and an entry of the wait queues a request, 250 descriptors take a millisecond here"
    ),
    "CM01-12": (
        "multi-accept select gains a few percent more from long rounds than row CM01-19 gives to "
        "RT signals"
    ),
    "CM01-46": ("as CM01-24, of which it is the rate at 4000/s alone"),
    "CM01-17": (
        "both saturate within 1% of each other: what an overflow costs here is won back by "
        "the longer rounds of the fall-back"
    ),
    "CM01-20": (
        "all but the number of SIGIOs holds: a fall-back lasts 0.4 to 0.6 s here, and 39 in "
        "a run need 1.5 s if the run is of 60 s, or 4.5 s if it is of 180 s"
    ),
    "CM01-24": (
        "in its fall-back, too, the server arms what it accepts and the kernel tries to "
        "queue signals: 3 to 7% of its rate, and more of its response time near saturation"
    ),
    "CM01-25": (
        "5% of the CPU is little more than an accept in vain, which the server with one "
        "signal a descriptor makes and the other does not"
    ),
    "CM01-36": (
        "who is accepted frees a place in the accept queue, and who takes it signals again: "
        "the rate falls and does not reach 0; after a burst behind which nobody comes it "
        "does (tests/models/signals/test_signals.py)"
    ),
    "CM01-41": ("the larger rounds that a costly hand-over leads to make up for most of it"),
    "G04-17": ("11% against 16% holds; how much the reply rate gains is at the edge of the band"),
    "G04-19": (
        "writing at once spares ET two changes and a wait a request, so it is 5 to 8% above "
        "LT in overload"
    ),
    "G04-24": ("ET is best, but by about 6%: the common rows of table 1 imply 4 to 5%"),
    "G04-26": (
        "nothing here grows with how many were accepted and not yet served; some 3.6 us a "
        "connection would be needed, perhaps of caches"
    ),
    "G04-06 ET": (
        "of its rows only epoll_wait's misses, 4.3% against 6.5%: in saturation ET gets one "
        "notice a connection, LT two"
    ),
    "B19-09": (
        "with a delay of 5 ms the client is full and nearly all descriptors are ready, so "
        "poll costs what epoll does; with 500 ms it holds (question below)"
    ),
    "B19-15": (
        "a loop that spins takes all of its CPU whatever the mechanism; the register calls "
        "the claim weak"
    ),
    "B19-16": (
        "it holds with 500 and 50 ms; with 5 ms and hundreds of connections the loops have "
        "nothing left to spin away"
    ),
    "B19-18": ("as B19-09"),
    "B19-26": ("with hundreds of connections a wait is hidden behind a round of others"),
    "PL00-09": ("how many fail follows poll's speed with 501 inactive, which is a range"),
    "PL00-13": (
        "phhttpd's connection costs what thttpd's on /dev/poll does, within 1%: nothing in "
        "its stated structure makes it dearer. Three signals a connection, as CM01-20 "
        "suggests, would; here it has one"
    ),
    "PL00-15": (
        "where poll with 501 inactive is drawn fast, phhttpd nearly keeps 500/s in poll mode"
    ),
    "PL00-18": ("as PL00-13"),
    "PL00-29": ("as PL00-15"),
    "PT00-05": (
        "with backlogs of 128 to 1024 the queue is shorter than clients' patience, so "
        "little work is for clients that have left; with 4096 and 1 s the rate drops "
        "(question below)"
    ),
    "PT00-06": ("how far it levels off depends on how much of a request is the server's own code"),
    "PT00-11": (
        "once triggered, the limiter resets everybody until its mean falls, and fails more "
        "than a full backlog does"
    ),
}
"""By claim."""
