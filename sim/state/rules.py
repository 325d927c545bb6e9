"""Rules between settings of a run, each declared once; runs and files word the errors themselves.

The bounds of a single setting, and its needs of a mechanism, are declared with it (setting.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from .program_settings import THREADS_MAX, WORKERS_MAX, ProgramSettings, Sharing
from .settings import Given, RunSettings, given


class Rule(NamedTuple):
    """The value that a setting must have where another setting, its cause, has a certain value.

    Attributes
    ----------
    setting, must, bound:
        The setting's name, and "be" or "be at least" this value.
    cause, value:
        The name and the value of the setting that causes the rule.
    why:
        The reason.
    of_several:
        Whether the rule holds for several workers only.
    """

    setting: str
    must: str
    bound: int
    cause: str
    value: int
    why: str
    of_several: bool = False


RULES = (
    Rule(
        "workers",
        "be at least",
        2,
        "sharing",
        Sharing.HANDED_OVER,
        "the first worker only accepts for the others",
    ),
    Rule(
        "read_after_accept",
        "be",
        False,
        "sharing",
        Sharing.HANDED_OVER,
        "the worker that accepts does not read",
    ),
    Rule(
        "read_after_accept",
        "be",
        False,
        "sharing",
        Sharing.READY_LIST,
        "the connection is watched already, and another worker may read from it, too",
        of_several=True,
    ),
    Rule(
        "request_timeout_ns",
        "be",
        0,
        "sharing",
        Sharing.READY_LIST,
        "another worker may be serving the late client",
        of_several=True,
    ),
    Rule(
        "sharing",
        "be",
        Sharing.ACCEPT_QUEUE,
        "passes_listener",
        True,
        "the workers pass on one common listener",
    ),
    Rule(
        "due_at_once",
        "be",
        0,
        "due_last_first",
        True,
        "all task work runs, newest first",
    ),
    Rule(
        "request_pieces",
        "be",
        1,
        "set_up",
        0,
        "a request in a SYN is whole",
    ),
)


class Broken(NamedTuple):
    """A broken rule: the setting, its required value, the case and the reason.

    *bound* is a value of the setting. Without a *cause* the rule always holds.
    """

    given: Given
    must: str
    bound: int
    cause: Given | None = None
    why: str = ""
    of_several: bool = False

    def __str__(self) -> str:
        """Return the error of a run, with the names and values of Python."""
        name, where = self.given.declared.name, ""
        if self.cause is not None:
            several = " and workers is above 1" if self.of_several else ""
            where = f" where {self.cause.declared.name} is {_in_run(self.cause)}{several}"
        bound = _in_run(self.given._replace(value=self.bound))
        why = f": {self.why}" if self.why else ""
        return f"{name} must {self.must} {bound}{where}{why}, got {_in_run(self.given)}"


def _in_run(given: Given) -> str:
    """Return a value as Python has it, with its word if it has one; booleans as in a file."""
    words = given.declared.setting.words
    if isinstance(words, tuple):
        return json.dumps(given.value)
    return f"{words.__name__}.{words(given.value).name}"


def broken_rules(settings: RunSettings) -> Iterator[Broken]:
    """Yield the rules between its settings that *settings* break."""
    for rule in RULES:
        found, cause = given(settings, rule.setting), given(settings, rule.cause)
        counts = settings.program.workers > 1 or not rule.of_several
        keeps = found.value >= rule.bound if "least" in rule.must else found.value == rule.bound
        # A bool may be given as a number.
        holds = cause.declared.kind(cause.value) == rule.value
        if counts and holds and not keeps:
            yield Broken(found, rule.must, rule.bound, cause, rule.why, rule.of_several)


def too_many_workers(settings: RunSettings, *, one_at_a_time: bool) -> Broken | None:
    """Return the rule that too many workers break.

    There may be far more threads that serve *one_at_a_time* of their descriptors.
    """
    workers = given(settings, "workers")
    most = THREADS_MAX if one_at_a_time else WORKERS_MAX
    return Broken(workers, "be at most", most) if workers.value > most else None


def too_few_epoll_sets(settings: RunSettings) -> Broken | None:
    """Return the rule that an epoll_instances below the workers' sets breaks; 0 is no bound."""
    instances, least = given(settings, "epoll_instances"), sets_of(settings.program)
    if not 0 < instances.value < least:
        return None
    why = "each worker creates a set, which fails with EMFILE otherwise"
    return Broken(instances, "be 0 or at least", least, given(settings, "workers"), why)


def too_few_to_backend(settings: RunSettings, *, one_at_a_time: bool) -> Broken | None:
    """Return the rule that too few connections to the backend break: each event loop needs one.

    Threads that serve *one_at_a_time* of their descriptors share all connections.
    """
    connections, program = given(settings, "connections"), settings.program
    takers = sets_of(program) - (program.sharing == Sharing.HANDED_OVER)
    least = 1 if one_at_a_time else takers
    if connections.value == 0 or connections.value >= least:
        return None
    why = "each event loop that serves clients needs one of its own"
    return Broken(connections, "be at least", least, given(settings, "workers"), why)


def sets_of(program: ProgramSettings) -> int:
    """Return the number of interest sets of the workers of *program*."""
    return 1 if program.sharing == Sharing.READY_LIST else program.workers
