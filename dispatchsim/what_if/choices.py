"""The settings of the page: keys, bounds, steps of the sliders, and texts.

    a key ─► Steps      a whole number between bounds; a slider stops at some of them
          └► Options    one of some names, each with the keys of a scenario that it sets

The keys are those of the page's address. All input from a browser is read by `read`, which accepts
only numbers in bounds and known names.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..calibration.profiles.choosing import EXAMPLE, default_choice
from ..calibration.profiles.cost_profile import Prices, Profile, period_profiles, shipped_profiles
from ..models.catalogue import CATALOGUE, named
from ..scenario.errors import UserError, nearest
from ..scenario.quantities import shown

MECHANISMS_MAX = 6
"""Most mechanisms in one view: a limit of readability and of run time."""
_WHOLE = re.compile(r"[0-9]{1,9}", re.A)
_SERIES = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)


class Steps(NamedTuple):
    """A whole number that a slider sets.

    Attributes
    ----------
    key, label, about:
        Name in the address; text beside the slider; meaning.
    values:
        Stops of the slider, ascending: the first and the last are the bounds.
    default:
        Value if nothing is chosen.
    unit:
        Unit after the number, as in "/s".
    zero:
        Text instead of 0.
    """

    key: str
    label: str
    about: str
    values: tuple[int, ...]
    default: int
    unit: str = ""
    zero: str = ""

    def read(self, text: str) -> int:
        """Return the number in *text*.

        Raises
        ------
        UserError
            With key, rule and value.
        """
        value = int(text) if _WHOLE.fullmatch(text) else -1
        if not self.values[0] <= value <= self.values[-1]:
            raise UserError(
                f"{self.key}: must be a whole number from {self.values[0]:,} to "
                f"{self.values[-1]:,}, got {shown(text)}"
            )
        return value


class Option(NamedTuple):
    """One choice: its label, and the keys of a scenario's sections that it sets."""

    label: str
    sets: Mapping[str, Mapping[str, Any]]


class Options(NamedTuple):
    """A choice among names; see `Steps`."""

    key: str
    label: str
    about: str
    options: Mapping[str, Option]
    default: str

    def read(self, text: str) -> str:
        """Return *text* if it is one of the names.

        Raises
        ------
        UserError
            With key, rule and value.
        """
        return _one_of(self.key, text, self.options)


def _one_of(key: str, text: str, names: Mapping[str, object]) -> str:
    if text not in names:
        known = ", ".join(names)
        # The search for a near name is slow, so only texts of a name's length are searched.
        near = nearest(text, names) if len(text) <= 40 else ""
        raise UserError(f"{key}: must be one of {known}{near}, got {shown(text)}")
    return text


def _decades(first: float, last: float) -> tuple[int, ...]:
    """Return ten steps per decade from *first* to *last*, in equal ratios."""
    found, decade = [], first
    while decade <= last:
        found += [round(decade * each) for each in _SERIES if decade * each <= last]
        decade *= 10
    return tuple(found)


RATE = Steps(
    "rate",
    "New connections",
    "New clients per second, at random times, independent of the server.",
    _decades(100, 100_000),
    16_000,
    "/s",
)
IDLE = Steps(
    "idle",
    "Idle connections",
    "Open and silent all the time; the server must still watch them.",
    (0, *_decades(10, 100_000)[::2]),
    4_000,
    "",
    "none",
)
REPLY = Steps(
    "reply",
    "Size of a reply",
    "Including the header.",
    tuple(2**power for power in range(7, 19)),
    4096,
    " B",
)
ACCEPT = Steps(
    "accept",
    "Accepts in a row",
    "New connections accepted before other connections are served.",
    (0, 1, 2, 5, 10, 20, 50, 100),
    0,
    "",
    "all that wait",
)
BACKLOG = Steps(
    "backlog",
    "Backlog",
    "New connections that may wait to be accepted; others are dropped and retry after 1 s.",
    (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65535),
    4096,
)
STYLE = Options(
    "style",
    "Each connection",
    "Requests of a client on a connection before it closes it.",
    {
        "one": Option("one request", {"load": {"requests": 1}}),
        "ten": Option("10 requests in a row", {"load": {"requests": 10}}),
        "pauses": Option(
            "10 requests, 10 ms apart", {"load": {"requests": 10, "think_time": "10 ms"}}
        ),
    },
    "one",
)
PATIENCE = Options(
    "patience",
    "Clients give up",
    "A client without a reply by then counts as an error.",
    {
        "short": Option("after 250 ms", {"load": {"timeout": "250 ms"}}),
        "second": Option("after 1 s", {"load": {"timeout": "1 s"}}),
        "long": Option("after 4 s", {"load": {"timeout": "4 s"}}),
        "never": Option("never", {}),
    },
    "second",
)
OVERLOAD = Options(
    "overload",
    "Overload control",
    "What the server does to avoid falling behind.",
    {
        "none": Option("none", {}),
        "events": Option(
            "reset new connections when many events come at once",
            {"server": {"limiter_gain": 0.1, "limiter_threshold": 18}},
        ),
        "waiting": Option(
            "reset connections not accepted within 20 ms",
            {"server": {"queue_deadline": "20 ms"}},
        ),
        "latency": Option(
            "limit open connections by their latency",
            {"server": {"concurrency_tolerance": 2.0}},
        ),
    },
    "none",
)
SLIDERS = (RATE, IDLE, REPLY, ACCEPT, BACKLOG)
SELECTS = (STYLE, PATIENCE, OVERLOAD)
DEFAULT_MECHANISMS = ("epoll_level", "poll", "select")


@functools.cache
def profiles() -> dict[str, Profile]:
    """Return the shipped profiles, which can be chosen, by name."""
    paths = shipped_profiles() | period_profiles()
    return {name: Profile.read(path) for name, path in paths.items()}


@functools.cache
def prices_in(profile: str) -> Mapping[str, Prices]:
    """Return the source of each mechanism's costs in *profile*, by name.

    Each search walks through the tables of all others, so the result is cached for all viewers.
    """
    return {name: profiles()[profile].prices(name) for name in CATALOGUE}


@functools.cache
def machines() -> Options:
    """Return the machines to choose from: shipped profiles only, so no path is ever opened."""

    def label(profile: Profile) -> str:
        if profile.machine.get("reconstructed"):
            return f"from literature: {profile.name}"
        is_counted = profile.name.startswith("counted-")
        return f"{'counted' if is_counted else 'measured'}: {profile.name}"

    about = "The machine on which costs were measured, or for which literature gives them."
    first, why = default_choice()
    if first in profiles():
        about += f" Default {first}: {why}."
    else:  # a file of the user's
        first = EXAMPLE
    known = {name: Option(label(profile), {}) for name, profile in profiles().items()}
    return Options("profile", "Machine", about, known, first)


def read_mechanisms(text: str) -> tuple[str, ...]:
    """Return the mechanisms named in *text*, separated by commas.

    Raises
    ------
    UserError
        With key, rule and value.
    """
    names = [_one_of("mechanisms", named(name), CATALOGUE) for name in text[:1000].split(",")]
    if len(set(names)) != len(names) or len(names) > MECHANISMS_MAX:
        raise UserError(
            f"mechanisms: must be 1 to {MECHANISMS_MAX} different mechanisms, got {shown(text)}"
        )
    return tuple(names)
