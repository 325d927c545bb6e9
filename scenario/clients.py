"""The sections [[clients]] of a scenario file: classes of clients with loads of their own.

[[clients]]  share, and keys that replace [load] ─┬─► ClientClass, of the trace and of a run
[load]       keys that no class replaces ─────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, StrictStr, model_validator

from ..sim.load.reply_sizes import MIXES
from ..sim.load.trace_file import REQUESTS_MAX
from ..sim.state.client_classes import CLASSES_MAX, ClientClass, class_sizes
from ..sim.state.kinds import NONE
from ..sim.state.laws import P99_BY_MEAN_MAX, Counts, Law, ReplyMix
from ..sim.state.units import PERMILLE
from .declared import Section, ShareOfSome
from .laws import Numbers, Spread, counts_of, law_of
from .load import Load, ReplySize, Requests, RequestSize
from .quantities import DURATION, SIZE, shown
from .sections import Name, PathSection, Pause, path_names

_INSTEAD = {
    "requests": ("requests", "requests_file"),
    "requests_spread": ("requests_spread",),
    "requests_file": ("requests", "requests_file"),
    "request_size": ("request_size",),
    "reply_size": ("reply_size", "reply_mix"),
    "reply_mix": ("reply_size", "reply_mix"),
    "think_time": ("think_time", "think_file"),
    "think": ("think",),
    "think_p99": ("think_p99", "think"),
    "think_file": ("think_file", "think_time"),
}
"""A key of [load] -> the keys of a class that replace it."""
_NEEDED = {"geometric": ("requests",), "lognormal": ("think_time", "think_p99")}
"""A distribution in [load] -> the keys of [load] that it needs."""
_PAUSES = ("think_time", "think", "think_p99", "think_file")


class ClientsSection(Section):
    """A class of clients, busy or quiet; 2 to 16 classes. Absent keys have [load]'s value."""

    name: Name | None = Field(default=None, description="Name in results; absent: its number.")
    share: ShareOfSome = Field(
        description="Share of the clients, to a thousandth: of the connections of an open loop, or "
        "of the users of a closed loop. The shares of all classes add up to 1."
    )
    requests: Requests | None = Field(
        default=None, description="Mean number of requests on each of its connections."
    )
    requests_spread: Numbers | None = Field(
        default=None, description="Distribution of that number, as load.requests_spread."
    )
    requests_file: StrictStr | None = Field(
        default=None, description="A file of numbers of requests, one a line."
    )
    request_size: RequestSize | None = Field(default=None, description="Size of a request.")
    reply_size: ReplySize | None = Field(
        default=None, description="Size of a reply, its header included."
    )
    reply_mix: Literal["specweb99"] | None = Field(
        default=None, description="A mixture of sizes instead of reply_size, as load.reply_mix."
    )
    think_time: Pause | None = Field(default=None, description="Mean pause.")
    think: Spread | None = Field(default=None, description="Distribution of pauses, as load.think.")
    think_p99: Pause | None = Field(
        default=None, description="99th percentile of lognormal pauses, above their mean."
    )
    think_file: StrictStr | None = Field(
        default=None, description="A file of pauses, one a line, such as 850 us."
    )
    path: StrictStr | None = Field(
        default=None,
        description="Name, or number from 1, of the [[path]] of its connections. If a class has "
        "this key, every class must have it, and path.share must be absent. Absent: path.share "
        "distributes all clients.",
    )
    requests_share: ShareOfSome | None = Field(
        default=None,
        description="With load.connections: share of all requests on connections of the class. "
        "The shares of all classes add up to 1. Absent: its share of connections.",
    )

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.reply_mix is not None and self.reply_size is not None:
            raise ValueError(
                "clients.reply_size: must be absent where clients.reply_mix is given, "
                f"got {SIZE.format(self.reply_size)}"
            )
        return self

    def given(self, key: str) -> str:
        """Return the value of *key* as a file has it."""
        value = self.model_dump(include={key})[key]
        return shown(value) if isinstance(getattr(self, key), str) else str(value)

    def has(self, *keys: str) -> bool:
        """Return whether the class has one of *keys*."""
        return any(getattr(self, key) is not None for key in keys)


def class_names(sections: Sequence[ClientsSection]) -> list[str]:
    """Return the name of each class in results."""
    return [each.name or str(number) for number, each in enumerate(sections, start=1)]


def classes_of(
    sections: Sequence[ClientsSection], load: Load, paths: tuple[PathSection, ...]
) -> tuple[ClientClass, ...]:
    """Return the classes in *sections*; absent keys have the value in *load*.

    Raises
    ------
    ValueError
        With key, rule and value, where keys do not go together or a file cannot be read.
    """
    return tuple(
        ClientClass(
            share_permille=round(each.share * PERMILLE),
            requests=_counts_of(each, load, f"clients {number}"),
            request_bytes=each.request_size or load.request_size,
            reply_bytes=each.reply_size or load.reply_size,
            reply_mix=_mix_of(each, load),
            pause=_law_of(each, load, f"clients {number}"),
            path=path_names(paths).index(each.path) if each.path in path_names(paths) else NONE,
            requests_permille=round((each.requests_share or each.share) * PERMILLE),
        )
        for number, each in enumerate(sections, start=1)
    )


def _mix_of(section: ClientsSection, load: Load) -> ReplyMix | None:
    name = section.reply_mix
    if name is None and section.reply_size is None:
        name = load.reply_mix
    return None if name is None else MIXES[name]


def _counts_of(section: ClientsSection, load: Load, where: str) -> Counts:
    """Return how many requests a connection makes; a number of its own is of no file of [load]."""
    spread, mean, file = section.requests_spread, section.requests, section.requests_file
    if spread is None:
        own_number = mean is not None and load.requests_spread == "samples"
        spread = "constant" if own_number else load.requests_spread
    if spread == "samples":
        file = file or load.requests_file
    elif mean is None and "requests" in load.model_fields_set:
        mean = load.requests
    if spread == "constant" and mean is None and file is None and load.connections is not None:
        return Counts("constant", REQUESTS_MAX)
    return counts_of(f"{where}.requests", mean, spread, file)


def _law_of(section: ClientsSection, load: Load, where: str) -> Law:
    """Return how its pauses are drawn; a mean of its own is of no file of [load]."""
    kind, mean_ns = section.think, section.think_time
    if kind is None:
        own_mean = mean_ns is not None and load.think == "samples"
        kind = "exponential" if own_mean else load.think
    p99_ns, file = section.think_p99, section.think_file
    if kind == "samples":
        file = file or load.think_file
    elif mean_ns is None:
        mean_ns = load.think_time
    if kind == "lognormal" and p99_ns is None and load.think_p99 is not None:
        p99_ns = load.think_p99
        _check_taken_over(p99_ns, mean_ns or 0, where)
    return law_of(
        f"{where}.think",
        mean_ns or 0,
        kind,
        p99_ns,
        file,
        mean_key=f"{where}.think_time",
        spread_key="load.think" if section.think is None else f"{where}.think",
    )


def _check_taken_over(p99_ns: int, mean_ns: int, where: str) -> None:
    """Check a 99th percentile of [load] for the mean of the class *where*, which has none."""
    mean, got = DURATION.format(mean_ns), DURATION.format(p99_ns)
    whose = f"the mean of {where}, which takes it over, got {got}"
    if 0 < p99_ns <= mean_ns:
        raise ValueError(f"load.think_p99: must be above {mean}, {whose}")
    if 0 < P99_BY_MEAN_MAX * mean_ns < p99_ns:
        raise ValueError(
            f"load.think_p99: must be at most {P99_BY_MEAN_MAX:g} times {mean}, {whose}"
        )


def check_clients(
    sections: Sequence[ClientsSection], load: Load, paths: tuple[PathSection, ...]
) -> None:
    """Check that the classes of a scenario cover all its clients.

    Raises
    ------
    ValueError
        With key, rule and value.
    """
    if not sections:
        return
    if not 2 <= len(sections) <= CLASSES_MAX:
        raise ValueError(
            f"clients: must be 2 to {CLASSES_MAX} sections, or none, got {len(sections)}"
        )
    if load.trace is not None:
        raise ValueError(
            f"clients: must be absent where load.trace is given, got {len(sections)} sections"
        )
    names = class_names(sections)
    for number, name in enumerate(names, start=1):
        if name in names[: number - 1]:
            raise ValueError(f'clients {number}.name: must be of one class only, got "{name}"')
    _check_shares("share", sections)
    needed = {*_NEEDED.get(load.requests_spread, ()), *_NEEDED.get(load.think, ())}
    for key, instead in _INSTEAD.items():
        if (
            key not in needed
            and key in load.model_fields_set
            and all(each.has(*instead) for each in sections)
        ):
            value = load.model_dump(include={key})[key]
            value = shown(value) if isinstance(getattr(load, key), str) else value
            raise ValueError(
                f"load.{key}: must be absent where every [[clients]] has its own, got {value}"
            )
    _check_paths(sections, paths)
    if load.connections is not None:
        _check_kept(sections)
    for number, each in enumerate(sections, start=1):
        if load.connections is None and each.requests_share is not None:
            raise ValueError(
                f"clients {number}.requests_share: must be absent unless load.connections is "
                f"given, got {each.requests_share:g}"
            )
    classes = classes_of(sections, load, paths)  # refuses keys that make none
    n = load.connections or load.users
    key = "load.users" if load.connections is None else "load.connections"
    for number, size in enumerate(class_sizes(classes, n) if n else (), start=1):
        if size == 0:
            share = sections[number - 1].share
            raise ValueError(
                f"clients {number}.share: must give at least one of {key} ({n}), got {share:g}"
            )


def _check_shares(key: str, sections: Sequence[ClientsSection]) -> None:
    shares = sum(round(getattr(each, key) * PERMILLE) for each in sections)
    if shares != PERMILLE:
        raise ValueError(
            f"clients.{key}: must add up to 1 over all [[clients]], got {shares / PERMILLE}"
        )


def _check_kept(sections: Sequence[ClientsSection]) -> None:
    for number, each in enumerate(sections, start=1):
        for key in _PAUSES:
            if each.has(key):
                raise ValueError(
                    f"clients {number}.{key}: must be absent where load.connections is given: "
                    f"requests arrive at load.rate, got {each.given(key)}"
                )
    _all_or_none("requests_share", sections)
    if sections[0].requests_share is not None:
        _check_shares("requests_share", sections)


def _check_paths(sections: Sequence[ClientsSection], paths: tuple[PathSection, ...]) -> None:
    _all_or_none("path", sections)
    names = path_names(paths)
    for number, each in enumerate(sections, start=1):
        if each.path is not None and each.path not in names:
            known = f"one of {', '.join(names)}" if names else "absent, as there is no [[path]]"
            raise ValueError(f"clients {number}.path: must be {known}, got {shown(each.path)}")
    taken = {each.path for each in sections}
    for number, name in enumerate(names, start=1):
        if sections[0].path is not None and name not in taken:
            raise ValueError(
                f"path {number}: must be the path of at least one [[clients]], "
                f"got none on {shown(name)}"
            )


def unused_pauses(sections: Sequence[ClientsSection], load: Load) -> list[str]:
    """Return a warning for each class of an open loop with pauses but one request a connection."""
    if load.loop != "open" or load.connections is not None:
        return []
    found = []
    for number, each in enumerate(sections, start=1):
        counts = _counts_of(each, load, f"clients {number}")
        given = [key for key in _PAUSES if each.has(key)]
        if given and not counts.several:
            found.append(
                f"clients {number}.{given[0]}: has no effect with one request on a connection, "
                f"got {each.given(given[0])}"
            )
    return found


def _all_or_none(key: str, sections: Sequence[ClientsSection]) -> None:
    missing = [number for number, each in enumerate(sections, start=1) if not each.has(key)]
    if 0 < len(missing) < len(sections):
        raise ValueError(
            f"clients {missing[0]}.{key}: must be given in every [[clients]], or in none, "
            "got nothing"
        )


def shares_of_paths(
    sections: Sequence[ClientsSection], paths: tuple[PathSection, ...]
) -> list[int] | None:
    """Return the share of the clients on each path in thousandths, where classes name paths."""
    if not sections or sections[0].path is None:
        return None
    return [
        sum(round(each.share * PERMILLE) for each in sections if each.path == name)
        for name in path_names(paths)
    ]


def busiest_class(classes: Sequence[ClientClass], connections: int) -> tuple[int, float, str]:
    """Return the busiest kept connections: their number, share of requests, and class.

    >>> busiest_class((), 8)
    (8, 1.0, '')
    """
    if not classes:
        return connections, 1.0, ""
    sizes = class_sizes(tuple(classes), connections)
    shares = [each.requests_permille / PERMILLE for each in classes]
    i = max(range(len(sizes)), key=lambda i: shares[i] / sizes[i])
    return sizes[i], shares[i], f" of clients {i + 1}"


def mean_requests(classes: Sequence[ClientClass], counts: Counts, *, is_kept: bool) -> float:
    """Return the mean number of requests on a connection; classes count by their shares.

    Where connections are kept, classes count by how fast they use connections up.
    """
    if not classes:
        return counts.mean
    if is_kept:
        return PERMILLE / sum(each.requests_permille / each.requests.mean for each in classes)
    return sum(each.share_permille * each.requests.mean for each in classes) / PERMILLE
