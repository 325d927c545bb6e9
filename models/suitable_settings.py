"""The settings of a server that each mechanism supports, and the bounds that it adds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..sim.assembly.checks import check
from ..sim.state.family_settings import Threads
from ..sim.state.mechanism import Mechanism, Trait, not_noted
from ..sim.state.program_settings import ProgramSettings
from ..sim.state.rules import sets_of, too_few_epoll_sets
from ..sim.state.setting import Kind
from ..sim.state.settings import Given, RunSettings, given_to_server
from .catalogue import CATALOGUE, Entry

_WAITS_OF_LIBEVENT = ("select", "poll", "epoll_wait")


def tells_states(entry: Entry) -> bool:
    """Return whether its kernel reports descriptors for as long as they are writable."""
    return entry.runs_event_loop and entry.mechanism.blocked is not_noted


def _has(trait: Trait) -> Callable[[Entry], bool]:
    return lambda entry: trait in entry.mechanism.traits


def _is_named(*names: str) -> Callable[[Entry], bool]:
    return lambda entry: entry.mechanism.name in names


_IS: dict[Kind, Callable[[Entry], bool]] = {
    Kind.LOOPS: lambda entry: entry.runs_event_loop,
    Kind.HAS_TIMERS: lambda entry: (
        entry.runs_event_loop or Trait.IN_CALLS in entry.mechanism.traits
    ),
    Kind.BLOCKS: _has(Trait.IN_CALLS),
    Kind.ASKS: lambda entry: not entry.mechanism.one_at_a_time,
    Kind.TELLS_STATES: tells_states,
    Kind.TAKES_OVER: lambda entry: tells_states(entry) and entry.wait_call in _WAITS_OF_LIBEVENT,
    Kind.SHARES_READY_LIST: _has(Trait.SHARES_READY_LIST),
    Kind.WAKES_ONE: _has(Trait.WAKES_ONE),
    Kind.BY_SIGNALS: _has(Trait.BY_SIGNALS),
    Kind.WATCHES_ONE_BY_ONE: lambda entry: entry.mechanism.name != "epoll_ctlv",
    Kind.IN_EPOLL: _has(Trait.IN_EPOLL),
    Kind.BY_PORT: _has(Trait.BY_PORT),
    Kind.IO_URING: _is_named("io_uring"),
    Kind.SELECT: _is_named("select"),
    Kind.SCANS: _is_named("select", "poll"),
    Kind.ONLY_ADDS: _is_named("dev_poll_or"),
    Kind.ASKS_BACKENDS: lambda entry: (
        entry.runs_event_loop or entry.program == "thread_per_connection"
    ),
}


class BrokenRule(NamedTuple):
    """A setting of a server whose value a mechanism does not support.

    *refused* is the one value that the mechanism refuses; None: all but the default.
    """

    given: Given
    needs: Kind
    refused: int | None = None

    @property
    def others(self) -> str:
        """The reason of the refusal, a clause to follow the mechanism's name."""
        return self.needs.value


def _rules(given: Given, settings: RunSettings) -> Iterator[BrokenRule]:
    """Yield the rules that *given* sets for a mechanism."""
    setting = given.declared.setting
    counts = settings.program.workers > 1 or not setting.of_several
    if setting.needs is not None and given.is_changed and counts:
        yield BrokenRule(given, setting.needs)
    if given.value in setting.value_needs and counts:
        yield BrokenRule(given, setting.value_needs[given.value], refused=given.value)


def broken_rule(entry: Entry, settings: RunSettings) -> BrokenRule | None:
    """Return the first rule that *settings* break with the mechanism of *entry*."""
    asked = (rule for given in given_to_server(settings) for rule in _rules(given, settings))
    return next((rule for rule in asked if not _IS[rule.needs](entry)), None)


def ignored_settings(entry: Entry, settings: RunSettings) -> list[str]:
    """Return the names of changed settings that the mechanism of *entry* ignores."""
    return [
        given.declared.name
        for given in given_to_server(settings)
        for looks in [given.declared.setting.looked_at_by]
        if given.is_changed and looks is not None and not _IS[looks](entry)
    ]


def settings_for(mechanism: Mechanism, settings: RunSettings, n_kept: int = 0) -> RunSettings:
    """Return *settings* with the bounds that *mechanism* has.

    A descriptor beyond select's bitmap cannot be watched, so FD_SETSIZE is the descriptor limit of
    a correct server. Threads whose stacks do not fit the address space cannot start.

    Raises
    ------
    ValueError
        If a setting is out of range, or does not suit the mechanism or the idle connections.
    """
    check(settings, mechanism.fds, one_at_a_time=mechanism.one_at_a_time)
    program, limits = settings.program, settings.limits
    entry = CATALOGUE.get(mechanism.name)
    if entry is not None:
        _check_rules(entry._replace(mechanism=mechanism), settings)
    if mechanism.name == "select" and settings.scans.fd_setsize > 0:
        limits = limits._replace(fd_limit=min(limits.fd_limit, settings.scans.fd_setsize))
    if Trait.IN_CALLS in mechanism.traits:
        program = _with_threads(settings, n_kept)
    if Trait.IN_EPOLL in mechanism.traits:
        _check_bounds(settings, n_kept)
    return settings._replace(program=program, limits=limits)


def _check_rules(entry: Entry, settings: RunSettings) -> None:
    rule = broken_rule(entry, settings)
    if rule is None:
        return
    setting, value = rule.given.declared, rule.given.value
    must = f"be {json.dumps(setting.default)}" if rule.refused is None else f"not be {value}"
    name = f"backend {setting.name}" if rule.given.field == "backend" else setting.name
    raise ValueError(
        f"{name} must {must} with {entry.mechanism.name}, {rule.others}, got {json.dumps(value)}"
    )


def _check_bounds(settings: RunSettings, n_kept: int) -> None:
    program, limits = settings.program, settings.limits
    too_few = too_few_epoll_sets(settings)
    if too_few is not None:
        raise ValueError(str(too_few))
    if limits.epoll_watches == 0:
        return
    least = (
        settings.client.idle
        + n_kept
        + settings.backend.connections
        + sets_of(program) * (2 if program.request_timeout_ns > 0 else 1)
    )
    if limits.epoll_watches < least:
        raise ValueError(
            f"epoll_watches must be at least {least}, for listeners, timers and idle connections "
            f"(ENOSPC), or 0, got {limits.epoll_watches}"
        )


def threads_max(settings: RunSettings) -> int:
    """Return the largest number of threads at once; each process has its own address space."""
    workers, blocking = settings.program.workers, settings.blocking
    if blocking.address_space_bytes == 0 or blocking.threads == Threads.PROCESSES:
        return workers
    return min(workers, blocking.address_space_bytes // blocking.stack_bytes)


def _with_threads(settings: RunSettings, n_kept: int) -> ProgramSettings:
    program, blocking, client = settings.program, settings.blocking, settings.client
    n = threads_max(settings)
    pool = blocking.threads == Threads.POOL
    if pool and n < program.workers:
        raise ValueError(
            f"workers must be at most {n}, as more stacks of {blocking.stack_bytes} bytes exceed "
            f"address_space_bytes ({blocking.address_space_bytes}), got {program.workers}"
        )
    if not pool and n < 2:
        raise ValueError(
            "workers must be at least 2, as one accepts and starts the others, and their stacks "
            f"must fit address_space_bytes; there can be {n}"
        )
    for_connections = n if pool else n - 1
    if client.idle + n_kept > for_connections:
        what = "idle" if n_kept == 0 else "idle and kept connections"
        raise ValueError(
            f"{what} must be at most {for_connections}, as each idle connection holds one of {n} "
            f"threads, got {client.idle + n_kept}"
        )
    return program._replace(workers=n)
