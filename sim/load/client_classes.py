"""The classes of clients, and the requests of their connections: chosen before a run.

    open loop     each connection has a random class, by its own stream ─► columns of the trace
    users         a user has one class permanently ─► tables of values, used at each connection

Users of a closed loop open as many connections as the server allows, so the user of a connection is
unknown before the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..state.client_classes import ClientClass, class_sizes
from ..state.laws import Law
from ..state.units import PERMILLE
from .laws import N_DRAWS, counts_at, draws_ns, quantiles_ns
from .reply_sizes import sizes_at
from .streams import generator

Integers = NDArray[np.int64]


class Drawn(NamedTuple):
    """Columns of a trace of connections of several classes, each of shape (n,)."""

    client_class: Integers
    requests: Integers
    request_bytes: Integers
    reply_bytes: Integers
    think_ns: Integers


def connection_drawer(classes: Sequence[ClientClass], seed: int) -> Callable[[int], Drawn]:
    """Return the function that makes the next *n* connections of an open loop.

    Each takes the same number of random numbers, so the size of blocks does not matter.
    """
    ends = np.cumsum([each.share_permille for each in classes])[:-1] / PERMILLE
    of_class = generator(seed, "classes of clients")
    of_requests = generator(seed, "requests of connections")
    of_sizes = generator(seed, "reply sizes")

    def draw(n: int) -> Drawn:
        found = np.searchsorted(ends, of_class.random(n), side="right")
        shares, sizes = of_requests.random(n), of_sizes.random((n, 2))
        columns = np.zeros((4, n), np.int64)
        for number, each in enumerate(classes):
            mine = found == number
            columns[0, mine] = counts_at(each.requests, shares[mine])
            columns[1, mine] = each.request_bytes
            columns[2, mine] = each.reply_bytes
            if each.reply_mix is not None:
                columns[2, mine] = sizes_at(each.reply_mix, *sizes[mine].T)
            columns[3, mine] = round(each.pause.mean)
        return Drawn(np.asarray(found, np.int64), *columns)

    return draw


def class_of_users(classes: Sequence[ClientClass], users: int, seed: int) -> Integers:
    """Return the class of each of *users*, as many of each as its share has, in random order."""
    numbers = np.repeat(np.arange(len(classes)), class_sizes(tuple(classes), users))
    return np.asarray(generator(seed, "classes of clients").permutation(numbers), np.int64)


def first_pauses(
    classes: Sequence[ClientClass], user_class: Integers, seed: int, *, drawn: bool
) -> tuple[Integers, Integers]:
    """Return the start of each user of a closed loop, in ns and ascending, and its class.

    Users with constant pauses begin one after the other during the first pause. Others begin after
    a random pause if *drawn*, or at once.
    """
    at_ns = np.zeros(user_class.size, np.int64)
    shares = generator(seed, "first pauses").random(user_class.size)
    for number, each in enumerate(classes):
        mine = np.flatnonzero(user_class == number)
        if each.pause.kind == "constant":
            at_ns[mine] = np.arange(mine.size) * round(each.pause.mean) // max(1, mine.size)
        elif drawn and each.pause.mean > 0:
            at_ns[mine] = np.rint(quantiles_ns(each.pause, shares[mine]))
    order = np.argsort(at_ns, kind="stable")
    return at_ns[order], user_class[order]


def users_of_requests(
    classes: Sequence[ClientClass], user_class: Integers, n: int, seed: int, *, in_turn: bool
) -> Integers:
    """Return the user of each of *n* requests on kept connections.

    The class is random by `requests_permille`, then the user in it is random. With *in_turn*
    classes alternate as evenly as these shares allow, and the users of each class in turn.
    """
    shares = np.array([each.requests_permille for each in classes]) / PERMILLE
    members = [np.flatnonzero(user_class == number) for number in range(len(classes))]
    if in_turn:
        numbers = [np.arange(int(np.ceil(n * share)) + 1) for share in shares]
        due = [(own + 0.5) / share for own, share in zip(numbers, shares, strict=True) if share]
        users = [
            of_class[own % of_class.size]
            for own, share, of_class in zip(numbers, shares, members, strict=True)
            if share
        ]
        order = np.argsort(np.concatenate(due), kind="stable")[:n]
        return np.asarray(np.concatenate(users)[order], np.int64)
    of_class = generator(seed, "classes of requests").random(n)
    found = np.searchsorted(np.cumsum(shares)[:-1], of_class, side="right")
    which = generator(seed, "users of requests").random(n)
    users_of = np.zeros(n, np.int64)
    for number, own in enumerate(members):
        mine = found == number
        users_of[mine] = own[(which[mine] * own.size).astype(np.int64)]
    return users_of


def class_tables(
    classes: Sequence[ClientClass], seed: int, *, of_users: bool
) -> dict[str, Integers]:
    """Return the columns of a world with an entry, or a table of random values, for each class.

    All tables of a column have one length, one behind the other. The sizes of requests are there
    only with classes *of_users* (`clients/classes.py`); otherwise the trace has them.
    """
    if not classes:
        return {}

    def pauses_ns(number: int) -> Integers:
        each = classes[number]
        law = each.pause if each.has_drawn_pauses else Law("constant", each.pause.mean)
        return draws_ns(law, seed, f"pauses of class {number}")

    tables = {
        "pause_ns": _tables([not each.has_drawn_pauses for each in classes], pauses_ns),
        "class_path": np.array([each.path for each in classes], np.int64),
    }
    if not of_users:
        return tables

    def shuffled(values: Integers, name: str, number: int) -> Integers:
        return generator(seed, f"{name} of class {number}").permutation(values)

    shares = (np.arange(N_DRAWS) + 0.5) / N_DRAWS

    def requests(number: int) -> Integers:
        return shuffled(counts_at(classes[number].requests, shares), "requests", number)

    def reply_bytes(number: int) -> Integers:
        each = classes[number]
        if each.reply_mix is None:
            return np.full(N_DRAWS, each.reply_bytes, np.int64)
        rng = generator(seed, f"reply sizes of class {number}")
        return sizes_at(each.reply_mix, *rng.random((N_DRAWS, 2)).T)

    tables["class_request_bytes"] = np.array([each.request_bytes for each in classes], np.int64)
    tables["class_requests"] = _tables(
        [each.requests.kind == "constant" for each in classes], requests
    )
    tables["class_reply_bytes"] = _tables([each.reply_mix is None for each in classes], reply_bytes)
    return tables


def _tables(are_constant: list[bool], table: Callable[[int], Integers]) -> Integers:
    """Return the table of each class, one behind the other: of one entry where all are constant."""
    n = 1 if all(are_constant) else N_DRAWS
    return np.concatenate([table(number)[:n] for number in range(len(are_constant))])
