"""Which settings of a server go with which mechanism, and what a mechanism makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ..sim.assembly.checks import check
from ..sim.state.mechanism import Mechanism, Trait, not_noted
from ..sim.state.settings import ClientSettings, RunSettings, ServerSettings, Sharing, Threads
from .catalogue import CATALOGUE, Entry


class Rule(NamedTuple):
    """A setting of ServerSettings that goes with some mechanisms only.

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

    def is_broken(self, entry: Entry, server: ServerSettings) -> bool:
        """Return whether *server* has it with the mechanism of *entry*, with which it cannot go."""
        value = getattr(server, self.setting)
        has = value != self.default if self.refused is None else value == self.refused
        return has and not self.suits(entry) and (server.workers > 1 or not self.of_several)

    @property
    def default(self) -> Any:
        """What it is unless set."""
        return ServerSettings._field_defaults[self.setting]


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


def ignored_settings(entry: Entry, server: ServerSettings) -> list[str]:
    """Return the names of settings that *server* has and the mechanism of *entry* ignores."""
    return [
        name
        for looks, names in LOOKED_AT_BY
        for name in names
        if not looks(entry) and getattr(server, name) != ServerSettings._field_defaults[name]
    ]


def broken_rule(entry: Entry, server: ServerSettings) -> Rule | None:
    """Return the first rule that *server* breaks with the mechanism of *entry*."""
    return next((rule for rule in RULES if rule.is_broken(entry, server)), None)


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
    server = settings.server
    entry = CATALOGUE.get(mechanism.name)
    if entry is not None:
        _check_rules(entry._replace(mechanism=mechanism), server)
    if mechanism.name == "select" and server.fd_setsize > 0:
        server = server._replace(fd_limit=min(server.fd_limit, server.fd_setsize))
    if Trait.IN_CALLS in mechanism.traits:
        server = _with_threads(server, settings.client)
    if Trait.IN_EPOLL in mechanism.traits:
        _check_bounds(server, settings.client)
    if server.passes_listener and server.sharing != Sharing.ACCEPT_QUEUE:
        raise ValueError(
            f"sharing must be {Sharing.ACCEPT_QUEUE!r} with passes_listener: there is one listener "
            f"to hand on, got {server.sharing}"
        )
    return settings._replace(server=server)


def _check_rules(entry: Entry, server: ServerSettings) -> None:
    rule = broken_rule(entry, server)
    if rule is None:
        return
    must = f"be {json.dumps(rule.default)}" if rule.refused is None else f"not be {rule.refused}"
    raise ValueError(
        f"{rule.setting} must {must} with {entry.mechanism.name}, {rule.others}, "
        f"got {json.dumps(getattr(server, rule.setting))}"
    )


def _check_bounds(server: ServerSettings, client: ClientSettings) -> None:
    n_sets = 1 if server.sharing == Sharing.READY_LIST else server.workers
    if 0 < server.epoll_instances < n_sets:
        raise ValueError(
            f"epoll_instances must be at least {n_sets}, one for each worker's epoll_create "
            f"(EMFILE), or 0, got {server.epoll_instances}"
        )
    if server.epoll_watches == 0:
        return
    least = client.idle + n_sets * (2 if server.request_timeout_ns > 0 else 1)
    if server.epoll_watches < least:
        raise ValueError(
            f"epoll_watches must be at least {least}, for listeners, timers and idle connections "
            f"(ENOSPC), or 0, got {server.epoll_watches}"
        )


def threads_max(server: ServerSettings) -> int:
    """Return how many threads *server* can have at once; processes have a space each."""
    if server.address_space_bytes == 0 or server.threads == Threads.PROCESSES:
        return server.workers
    return min(server.workers, server.address_space_bytes // server.stack_bytes)


def _with_threads(server: ServerSettings, client: ClientSettings) -> ServerSettings:
    n = threads_max(server)
    pool = server.threads == Threads.POOL
    if pool and n < server.workers:
        raise ValueError(
            f"workers must be at most {n}, whose stacks of {server.stack_bytes} bytes fit "
            f"address_space_bytes ({server.address_space_bytes}), got {server.workers}"
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
    return server._replace(workers=n)
