"""Effects that a profile's costs may hold, be older than, or be used without.

    profile ──costs──► without(costs, names) ──► a run in which these effects are not there

An effect is something a kernel does that has costs of its own. Where they are left out, the model
is the one of before: a run with and one without show what the effect is worth.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .costs import ColdCosts, Costs


class Effect(NamedTuple):
    """What a kernel does, and the fields of `Costs` that hold it.

    Attributes
    ----------
    what:
        One sentence.
    costs:
        Table and field of each cost: "interrupt.way". All are at their defaults without it.
    bench:
        The bench of `measure machine micro` that measures it; "flood": `measure flood`; "fit": the
        fit points.
    is_of_packet_clients:
        Whether the effect exists, or is measured, only with packet clients.
    otherwise:
        The cost that has its time without the effect; empty: none has.
    """

    what: str
    costs: tuple[str, ...]
    bench: str
    is_of_packet_clients: bool = False
    otherwise: str = ""


EFFECTS = {
    "interrupt-way": Effect(
        "an interrupt on another CPU arrives after a delay, and takes its sender's CPU time",
        ("interrupt.way", "client.interrupt_ns"),
        "interrupt_way",
    ),
    "own-replies": Effect(
        "a write handles its reply, and packets that arrive meanwhile, for a client on the same "
        "machine",
        ("call.delivery_ns", "call.delivery_after_ns"),
        "interrupt_way",
    ),
    "own-fins": Effect(
        "a close handles its FIN, and packets that arrive meanwhile, for a client on the same "
        "machine",
        ("call.close_delivery_ns", "call.close_delivery_after_ns"),
        "packets_leave",
    ),
    "early-packets": Effect(
        "a client's packet leaves in the middle of its call",
        ("client.connect_after_ns", "client.close_after_ns"),
        "packets_leave",
    ),
    "cold-handshakes": Effect(
        "a handshake that an interrupt handles alone finds the caches cold",
        ("interrupt.cold_ns",),
        "interrupt_connect",
    ),
    "acknowledged-by-replies": Effect(
        "the second request of a connection is acknowledged by its reply",
        ("interrupt.data_saved_ns",),
        "interrupt_later",
    ),
    "acknowledging-packets": Effect(
        "a client's acknowledgements, of a handshake and of replies, are packets of their own",
        ("client.ack_ns", "interrupt.reply_acked_ns"),
        "write_flights",
        is_of_packet_clients=True,
    ),
    "crowding": Effect(
        "a connection takes longer among hundreds that wait: its data have left the caches",
        ("call.crowding",),
        "serve_crowded",
    ),
    "cold-connections": Effect(
        "a later request of a connection takes longer if a thousand others had replies meanwhile",
        ("call.returning",),
        "serve_kept",
    ),
    "dropped-syns-are-cheap": Effect(
        "a dropped SYN is dropped early, before most of its work",
        ("interrupt.syn_saved_ns",),
        "interrupt_dropped",
    ),
    "long-idleness": Effect(
        "a CPU takes longer to leave idleness after a longer idle time",
        ("interrupt.idle_exit_since",),
        "handshake_idle",
    ),
    "cold-after-idleness": Effect(
        "after idleness a connection request and the first accept find the caches cold",
        ("interrupt.syn_cold_ns", "call.accept_cold_ns"),
        "lone_connection",
    ),
    "cold-caches": Effect(
        "a packet or a call takes longer if others have run since the last of its kind, and longer "
        "still if the CPU was idle",
        tuple(f"cold.{name}" for name in ColdCosts._fields),
        "serve_paced",
        is_of_packet_clients=True,
    ),
    "idle-interrupts": Effect(
        "an interrupt that finds the CPU idle takes less of its time: entering it is part of "
        "leaving idleness",
        ("interrupt.idle_saved_ns",),
        "epoll_block",
    ),
    "displaced-caches": Effect(
        "a connection takes longer than its parts in benches: its accept, if a thread had the CPU "
        "when its SYN was handled, else its close",
        ("interrupt.displaced_ns",),
        "fit",
        is_of_packet_clients=True,
        otherwise="application.connection_ns",
    ),
    "cold-entries": Effect(
        "an interrupt takes longer after a longer pause, with cold caches",
        ("interrupt.entry_since",),
        "flood",
    ),
}
"""The effects by name. Each was once missing in the model; its bench shows it alone."""


def without(costs: Costs, names: Iterable[str]) -> Costs:
    """Return *costs* without the effects *names*: their costs are at the defaults.

    The time of some effects is then part of another cost.
    """
    for name in names:
        effect = EFFECTS[name]
        for cost in effect.costs:
            table, field = cost.split(".")
            given = getattr(costs, table)
            costs = _having(costs, cost, given._field_defaults[field])
            if effect.otherwise:
                to_table, to_field = effect.otherwise.split(".")
                whole_ns = getattr(getattr(costs, to_table), to_field) + getattr(given, field)
                costs = _having(costs, effect.otherwise, whole_ns)
    return costs


def _having(costs: Costs, cost: str, value: object) -> Costs:
    """Return *costs* with *value* for one *cost* ("interrupt.way")."""
    table, field = cost.split(".")
    return costs._replace(**{table: getattr(costs, table)._replace(**{field: value})})


def effect_names(text: str) -> list[str]:
    """Return the names in *text*, separated by commas; none for "none".

    Raises
    ------
    ValueError
        If one names no effect.

    >>> effect_names("own-fins, interrupt-way")
    ['own-fins', 'interrupt-way']
    >>> effect_names("none")
    []
    """
    if text == "none":
        return []
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in EFFECTS]
    if unknown:
        raise ValueError(
            f'must be none, or of {", ".join(EFFECTS)} with commas between them, got "{unknown[0]}"'
        )
    return names
