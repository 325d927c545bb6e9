"""Which settings of a server go with which mechanism, and what a mechanism makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ..sim.assembly.checks import check
from ..sim.state.client_settings import ClientSettings
from ..sim.state.mechanism import Mechanism, Trait, not_noted
from ..sim.state.program_settings import ProgramSettings, Sharing, Threads
from ..sim.state.settings import FOR_SERVER, RunSettings, changed_for_server
from .catalogue import CATALOGUE, Entry


class Rule(NamedTuple):
    """A setting of a server that goes with some mechanisms only.

    Attributes
    ----------
    setting:
        Its name.
    suits:
        Whether it goes with a mechanism.
    others:
        What the other mechanisms are, to be said after their names.
    refused:
        The one value that they refuse; None: each but the default.
    of_several:
        Whether it is nothing to a single worker.
    """

    setting: str
    suits: Callable[[Entry], bool]
    others: str
    refused: int | None = None
    of_several: bool = False

    def is_broken(self, entry: Entry, settings: RunSettings) -> bool:
        """Return whether a run has it with the mechanism of *entry*, with which it cannot go."""
        value = self.value(settings)
        has = value != self.default if self.refused is None else value == self.refused
        several = settings.program.workers > 1
        return has and not self.suits(entry) and (several or not self.of_several)

    @property
    def default(self) -> Any:
        """What it is unless set."""
        return self.value(RunSettings())

    def value(self, settings: RunSettings) -> Any:
        """Return what it is in a run."""
        records = (getattr(settings, name) for name in FOR_SERVER)
        return next(getattr(each, self.setting) for each in records if hasattr(each, self.setting))


def _loops(entry: Entry) -> bool:
    return entry.runs_event_loop


def _blocks(entry: Entry) -> bool:
    return Trait.IN_CALLS in entry.mechanism.traits


def _asks_for_events(entry: Entry) -> bool:
    return not entry.mechanism.one_at_a_time


def _watches_one_by_one(entry: Entry) -> bool:
    return entry.mechanism.name != "epoll_ctlv"


def tells_states(entry: Entry) -> bool:
    """Return whether its kernel reports that a server can write for as long as it can."""
    return entry.runs_event_loop and entry.mechanism.blocked is not_noted


def _may_take_over(entry: Entry) -> bool:
    return tells_states(entry) and entry.wait_call in _WAITS_OF_LIBEVENT


_WAITS_OF_LIBEVENT = ("select", "poll", "epoll_wait")
_NO_LOOP = "whose program is no event loop"
_SLEEP_IN_CALLS = "whose threads sleep in their calls"
RULES = (
    Rule("accept_limit", _loops, _NO_LOOP),
    Rule("listener_last", _loops, _NO_LOOP),
    Rule("read_after_accept", _loops, _NO_LOOP),
    Rule("writes_when_told", tells_states, "whose servers are not told that they still can"),
    Rule("concurrency_tolerance_permille", _loops, _NO_LOOP),
    Rule(
        "request_timeout_ns",
        lambda entry: entry.runs_event_loop or Trait.IN_CALLS in entry.mechanism.traits,
        "whose programs have no timers here",
    ),
    Rule("threads", _blocks, "whose workers are there from the beginning"),
    Rule("busy", _asks_for_events, _SLEEP_IN_CALLS),
    Rule("limiter_gain_permille", _asks_for_events, _SLEEP_IN_CALLS),
    Rule("sharing", _asks_for_events, _SLEEP_IN_CALLS),
    Rule(
        "sharing",
        lambda entry: Trait.SHARES_READY_LIST in entry.mechanism.traits,
        "whose workers have no ready list in common",
        refused=int(Sharing.READY_LIST),
    ),
    Rule(
        "sharing",
        _may_take_over,
        "whose workers are not told of connections that another one has accepted",
        refused=int(Sharing.HANDED_OVER),
    ),
    Rule(
        "wake_one",
        lambda entry: Trait.WAKES_ONE in entry.mechanism.traits,
        "which leaves no choice",
        of_several=True,
    ),
    Rule(
        "passes_listener",
        lambda entry: Trait.BY_SIGNALS in entry.mechanism.traits,
        "whose events are not told by signals",
    ),
    Rule("epoll_watches", _watches_one_by_one, "whose calls watch many at once"),
)


def _holds_in_epoll(entry: Entry) -> bool:
    return Trait.IN_EPOLL in entry.mechanism.traits


LOOKED_AT_BY: tuple[tuple[Callable[[Entry], bool], tuple[str, ...]], ...] = (
    (
        lambda entry: Trait.BY_SIGNALS in entry.mechanism.traits,
        (
            *("signal_queue", "signals_elsewhere", "signal_numbers", "recovery"),
            *("recovery_array_kept", "recovery_hands_over", "poll_above", "calm_below"),
            *("accept_each_signal", "overflow_told_last"),
        ),
    ),
    (_loops, ("timeout_check_ns",)),
    (_holds_in_epoll, ("epoll_watches", "epoll_instances")),
    (_blocks, ("stack_bytes", "address_space_bytes")),
    (lambda entry: Trait.BY_PORT in entry.mechanism.traits, ("concurrent_threads", "sends_block")),
    (
        lambda entry: entry.mechanism.name == "io_uring",
        ("due_at_once", "due_last_first", "accept_looks_again"),
    ),
    (lambda entry: entry.mechanism.name == "select", ("fd_setsize",)),
    (lambda entry: entry.mechanism.name in ("select", "poll"), ("array_rebuilt",)),
    (lambda entry: entry.mechanism.name == "dev_poll_or", ("removes_first",)),
)
"""Settings that may stand there for other mechanisms, too, which do not look at them."""


def ignored_settings(entry: Entry, settings: RunSettings) -> list[str]:
    """Return the names of settings that a run has and the mechanism of *entry* ignores."""
    changed = {name for name, _, _ in changed_for_server(settings)}
    return [
        name
        for looks, names in LOOKED_AT_BY
        for name in names
        if not looks(entry) and name in changed
    ]


def broken_rule(entry: Entry, settings: RunSettings) -> Rule | None:
    """Return the first rule that *settings* break with the mechanism of *entry*."""
    return next((rule for rule in RULES if rule.is_broken(entry, settings)), None)


def settings_for(mechanism: Mechanism, settings: RunSettings) -> RunSettings:
    """Return *settings* with the bounds that *mechanism* has.

    A descriptor that does not fit select's bitmap cannot be watched: for a server that checks, as
    it must, FD_SETSIZE is its descriptor limit. Threads whose stacks do not fit the address space
    cannot be begun.

    Raises
    ------
    ValueError
        If one is out of its range, or does not go with the mechanism or the idle population.
    """
    check(settings, mechanism.fds, one_at_a_time=mechanism.one_at_a_time)
    program, limits = settings.program, settings.limits
    entry = CATALOGUE.get(mechanism.name)
    if entry is not None:
        _check_rules(entry._replace(mechanism=mechanism), settings)
    if mechanism.name == "select" and limits.fd_setsize > 0:
        limits = limits._replace(fd_limit=min(limits.fd_limit, limits.fd_setsize))
    if Trait.IN_CALLS in mechanism.traits:
        program = _with_threads(program, settings.client)
    if Trait.IN_EPOLL in mechanism.traits:
        _check_bounds(settings)
    if program.passes_listener and program.sharing != Sharing.ACCEPT_QUEUE:
        raise ValueError(
            f"sharing must be {Sharing.ACCEPT_QUEUE!r} with passes_listener: there is one listener "
            f"to hand on, got {program.sharing}"
        )
    return settings._replace(program=program, limits=limits)


def _check_rules(entry: Entry, settings: RunSettings) -> None:
    rule = broken_rule(entry, settings)
    if rule is None:
        return
    must = f"be {json.dumps(rule.default)}" if rule.refused is None else f"not be {rule.refused}"
    raise ValueError(
        f"{rule.setting} must {must} with {entry.mechanism.name}, {rule.others}, "
        f"got {json.dumps(rule.value(settings))}"
    )


def _check_bounds(settings: RunSettings) -> None:
    program, limits = settings.program, settings.limits
    n_sets = 1 if program.sharing == Sharing.READY_LIST else program.workers
    if 0 < limits.epoll_instances < n_sets:
        raise ValueError(
            f"epoll_instances must be at least {n_sets}, one for each worker's epoll_create "
            f"(EMFILE), or 0, got {limits.epoll_instances}"
        )
    if limits.epoll_watches == 0:
        return
    least = settings.client.idle + n_sets * (2 if program.request_timeout_ns > 0 else 1)
    if limits.epoll_watches < least:
        raise ValueError(
            f"epoll_watches must be at least {least}, for listeners, timers and idle connections "
            f"(ENOSPC), or 0, got {limits.epoll_watches}"
        )


def threads_max(program: ProgramSettings) -> int:
    """Return how many threads *program* can have at once; processes have a space each."""
    if program.address_space_bytes == 0 or program.threads == Threads.PROCESSES:
        return program.workers
    return min(program.workers, program.address_space_bytes // program.stack_bytes)


def _with_threads(program: ProgramSettings, client: ClientSettings) -> ProgramSettings:
    n = threads_max(program)
    pool = program.threads == Threads.POOL
    if pool and n < program.workers:
        raise ValueError(
            f"workers must be at most {n}, whose stacks of {program.stack_bytes} bytes fit "
            f"address_space_bytes ({program.address_space_bytes}), got {program.workers}"
        )
    if not pool and n < 2:
        raise ValueError(
            "workers must be at least 2, as one accepts and starts the others, and their stacks "
            f"must fit address_space_bytes; there can be {n}"
        )
    for_connections = n if pool else n - 1
    if client.idle > for_connections:
        raise ValueError(
            f"idle must be at most {for_connections}, as each idle connection holds one of {n} "
            f"threads, got {client.idle}"
        )
    return program._replace(workers=n)
