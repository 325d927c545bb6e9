"""Rules that differ between releases of Linux, as settings of a run.

    machine.kernel = "6.1", or the profile's ──► with_release ──► settings of io_uring, of the
                                                                 scheduler and of softirqs

The rules of Linux 6.1 and 6.18 are tested (`dispatchsim validate rules`); those of other releases
come from the source. They are rules of the server's machine. Clients are other machines:
`network.syn_timeouts` sets their time-outs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..sim.state.settings import RunSettings
from ..sim.state.units import MILLISECOND_NS

RELEASE = r"(\d+)\.(\d+)(\D.*)?"
"""A release, as "6.1", "6.18.44-cloud" or "2.6.5": its first two numbers decide."""

_CPUS_MAX = 8


class Change(NamedTuple):
    """A change in a release: before it the settings *record* of a run had these *values*.

    Times of the scheduler are for one CPU (*by_cpus*): they are doubled for two CPUs, tripled for
    four, quadrupled for eight and more. Releases before *known_from* have today's rules, or other
    rules that are left out.
    """

    release: tuple[int, int]
    record: str
    values: Mapping[str, int]
    source: str
    by_cpus: bool = False
    known_from: tuple[int, int] = (0, 0)


CHANGES = (
    Change(
        (6, 13),
        "completions",
        {"due_at_once": 0},
        "io_uring/io_uring.h IO_LOCAL_TW_DEFAULT_MAX",
    ),
    Change(
        (6, 10),
        "completions",
        {"accept_looks_again": True},
        "io_uring/net.c io_accept(): IORING_CQE_F_SOCK_NONEMPTY",
    ),
    Change(
        (6, 6),
        "kernel",
        {"granularity_ns": MILLISECOND_NS, "credit_ns": 3 * MILLISECOND_NS},
        "kernel/sched/fair.c wakeup_gran(), place_entity(), get_update_sysctl_factor()",
        by_cpus=True,
        known_from=(3, 0),
    ),
    Change(
        (6, 5),
        "completions",
        {"due_last_first": True},
        "io_uring/io_uring.c __io_run_local_work(): io_llist_xchg(), llist_reverse_order()",
    ),
    Change(
        (6, 5),
        "kernel",
        {"interrupts_beside": False},
        "kernel/softirq.c invoke_softirq(), do_softirq(): ksoftirqd_running(), of 4.9 to 6.4",
        known_from=(4, 9),
    ),
)


def with_release(settings: RunSettings, mechanism: str, release: str) -> RunSettings:
    """Return *settings* for a server of *mechanism* on a *release* of Linux.

    Without a version, as "", it is the newest release.

    >>> with_release(RunSettings(), "io_uring", "6.1.0").completions.due_last_first
    True
    >>> with_release(RunSettings(), "poll", "6.18.44-cloud") == RunSettings()
    True
    """
    version = re.fullmatch(RELEASE, release)
    if version is None:
        return settings
    known = int(version[1]), int(version[2])
    factor = min(settings.machine.cpus, _CPUS_MAX).bit_length()
    for change in CHANGES:
        of_another = change.record == "completions" and mechanism != "io_uring"
        if of_another or not change.known_from <= known < change.release:
            continue
        values = dict(change.values)
        if change.by_cpus:
            values = {name: value * factor for name, value in values.items()}
        record = getattr(settings, change.record)._replace(**values)
        settings = settings._replace(**{change.record: record})
    return settings
