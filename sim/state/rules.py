"""Rules between settings of a run, each said once; a run and a file have their own words for it.

What a setting may be by itself, and what it asks of a mechanism, stands beside it (setting.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from .program_settings import THREADS_MAX, WORKERS_MAX, ProgramSettings, Sharing
from .settings import Given, RunSettings, given


class Rule(NamedTuple):
    """What a setting must be where another one, its cause, has a value.

    Attributes
    ----------
    setting, must, bound:
        The setting's name, and "be" or "be at least" this value.
    cause, value:
        The name and the value of the setting that is why.
    why:
        What is so in that case.
    of_several:
        Whether it is a rule for more than one worker.
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
        "the first accepts for the others",
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
        "another worker may be serving the client that is late",
        of_several=True,
    ),
    Rule(
        "sharing",
        "be",
        Sharing.ACCEPT_QUEUE,
        "passes_listener",
        True,
        "there is one listener to hand on",
    ),
    Rule(
        "due_at_once",
        "be",
        0,
        "due_last_first",
        True,
        "all that is due is done, from the end of the queue",
    ),
    Rule(
        "request_pieces",
        "be",
        1,
        "set_up",
        0,
        "a request that comes along with its SYN is whole",
    ),
)


class Broken(NamedTuple):
    """A rule that settings break: what the setting must be, in which case, and why.

    *bound* is a value of the setting. Without a *cause* the rule holds always.
    """

    given: Given
    must: str
    bound: int
    cause: Given | None = None
    why: str = ""
    of_several: bool = False

    def __str__(self) -> str:
        """Return the sentence for a run: names and values are those of Python."""
        name, where = self.given.declared.name, ""
        if self.cause is not None:
            several = " and workers is above 1" if self.of_several else ""
            where = f" where {self.cause.declared.name} is {_in_run(self.cause)}{several}"
        bound = _in_run(self.given._replace(value=self.bound))
        why = f": {self.why}" if self.why else ""
        return f"{name} must {self.must} {bound}{where}{why}, got {_in_run(self.given)}"


def _in_run(given: Given) -> str:
    """Return a value as Python has it, with its word where it has one; true is that of a file."""
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
        # A bool may be told as any number.
        holds = cause.declared.kind(cause.value) == rule.value
        if counts and holds and not keeps:
            yield Broken(found, rule.must, rule.bound, cause, rule.why, rule.of_several)


def too_many_workers(settings: RunSettings, *, one_at_a_time: bool) -> Broken | None:
    """Return the rule that more workers break than there can be.

    Of threads with *one_at_a_time* of their descriptors there may be far more.
    """
    workers = given(settings, "workers")
    most = THREADS_MAX if one_at_a_time else WORKERS_MAX
    return Broken(workers, "be at most", most) if workers.value > most else None


def too_few_epoll_sets(settings: RunSettings) -> Broken | None:
    """Return the rule that fewer epoll sets break than the workers create; 0 is no bound."""
    instances, least = given(settings, "epoll_instances"), sets_of(settings.program)
    if not 0 < instances.value < least:
        return None
    why = "each worker creates a set, which else fails with EMFILE"
    return Broken(instances, "be 0 or at least", least, given(settings, "workers"), why)


def too_few_to_backend(settings: RunSettings, *, one_at_a_time: bool) -> Broken | None:
    """Return the rule that fewer connections to the backend break than event loops need.

    Threads with *one_at_a_time* of their descriptors have all in common.
    """
    connections, program = given(settings, "connections"), settings.program
    takers = sets_of(program) - (program.sharing == Sharing.HANDED_OVER)
    least = 1 if one_at_a_time else takers
    if connections.value == 0 or connections.value >= least:
        return None
    why = "each event loop that serves clients has some of its own"
    return Broken(connections, "be at least", least, given(settings, "workers"), why)


def sets_of(program: ProgramSettings) -> int:
    """Return how many interest sets the workers of *program* have, which ask for readiness."""
    return 1 if program.sharing == Sharing.READY_LIST else program.workers
