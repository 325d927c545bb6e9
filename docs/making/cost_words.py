"""The meaning of each cost, in a phrase, for the reference pages.

COMMON    a name that means the same in most tables
OF_TABLE  a name with a meaning of its own in one kind of table; a mechanism's file has its own

The docstrings of the tables explain how their costs go together.
"""

from __future__ import annotations

from collections.abc import Mapping

from dispatchsim.models.catalogue import CATALOGUE

COMMON = {
    "call_ns": "the call that waits, until it checks for events",
    "event_ns": "each event that a wait returns",
    "notice_ns": "each notice that a wait returns",
    "recheck_ns": "an entry of the list that is no longer ready",
    "add_ns": "one descriptor added to what is watched",
    "modify_ns": "one change of the interest in a descriptor",
    "delete_ns": "one descriptor removed, by a call of its own",
    "forget_ns": "extra time of a close, in which the kernel removes the descriptor",
    "entry_ns": "a call that declares changes, without the changes in it",
    "scan": "one scan, by the number of descriptors watched",
    "register": "entering wait queues in a scan, by the number of descriptors passed",
    "release": "leaving those wait queues before the call returns, by their number",
    "read_back": "the server reads what the call returned, by the entries before the last event",
    "look": "the part of a call before its first check of a descriptor, by the number watched",
    "rebuild": "the server builds its set for a call, by descriptors",
    "arm_ns": "having a descriptor signal: three calls of fcntl",
    "queue_ns": "extra time of an interrupt that queues a signal",
    "signal_ns": "each signal that a call returns",
    "lost_ns": "extra time of an interrupt that finds the queue full",
    "merged_ns": "extra time of an interrupt whose signal is queued already",
    "flush_ns": "recovery: throwing the queue away",
    "discard_ns": "recovery: each signal that is thrown away",
    "poll": "recovery: one poll of all watched descriptors, by their number",
    "keep_ns": "each change of interest where the array for recovery is kept up to date",
    "send_fd_ns": "recovery: a message that hands a descriptor over to another thread",
    "receive_fd_ns": "recovery: that message at the other thread",
    "switch": "extra time of waking if another thread had the CPU, by runnable threads",
    "saved_ns": "time saved in sleeping and waking if another thread is runnable",
    "post_ns": "extra time of an interrupt that posts an event",
    "woken_ns": "extra time of a call that has slept",
    "complete_ns": "each completion that a call returns",
}
OF_TABLE: dict[str, Mapping[str, str]] = {
    "InterruptCosts": {
        "entry_ns": "an interrupt, once for all packets that it handles",
        "syn_ns": "a connection request, up to the SYN-ACK at the client",
        "ack_ns": "the rest of the handshake",
        "data_ns": "a request that arrives",
        "reset_ns": "a reset by the client",
        "idle_exit_ns": "leaving idleness: latency, not CPU time",
        "sleep_ns": "taking the server off the CPU",
        "wake_ns": "putting the server back on the CPU",
        "syn_after_ns": "the part of syn_ns after the SYN-ACK has left",
        "syn_saved_ns": "the part of syn_ns that a dropped SYN does not take",
        "data_saved_ns": "the part of data_ns that is saved if the reply acknowledges the request",
        "left_ns": "extra sleep_ns when calls have left work to a thread of the kernel",
        "datagram_ns": "a datagram that finds its receive buffer full",
        "cold_ns": "extra time of a handshake that an interrupt handles alone",
        "syn_cold_ns": "extra time of a connection request that finds the CPU idle",
        "idle_saved_ns": "the part of entry_ns that takes no CPU time if the CPU is idle",
        "displaced_ns": "time of a connection that no bench shows, in its accept or close",
        "acked_ns": "each acknowledgement of a flight of segments after the first",
        "reply_acked_ns": "the acknowledgement of a reply by a packet of its own",
        "idle_exit_since": "extra idle_exit_ns, by microseconds of idleness",
        "entry_since": "extra entry_ns, by microseconds since the last interrupt",
        "datagram_entry_ns": "an interrupt for a datagram instead of entry_ns",
        "way": "how long an interrupt is on its way, as quantiles in thousandths",
    },
    "CallCosts": {
        "accept_ns": "an accept that returns a connection",
        "accept_again_ns": "an accept that finds none",
        "read_ns": "a read of a request",
        "read_again_ns": "a read that finds nothing",
        "write_ns": "a write of a reply, without its bytes",
        "write_kib_ns": "each KiB of a write",
        "close_ns": "a close",
        "accept_after_ns": "the part of accept_again_ns after its check of the queue",
        "write_after_ns": "the part of write_ns after the reply has left",
        "crowding": "extra cost of a connection, by the number open or waiting for accept",
        "crossing_ns": "the part of each call that enters and leaves the kernel",
        "connect_ns": "socket() and connect() of a client",
        "delivery_ns": "how long before its end a write begins to handle its reply, and packets",
        "delivery_after_ns": "how long before its end it stops that",
        "close_delivery_ns": "how long before its end a close begins to handle its FIN",
        "close_delivery_after_ns": "how long before its end it stops that",
        "accept_cold_ns": "extra cost of the first accept since the CPU was idle",
        "returning": "extra cost of a later request, by the replies on others since the last one",
    },
    "ColdCosts": {
        name: f"extra time of {what}, by microseconds of idleness since the last one"
        for name, what in {
            "syn": "a connection request",
            "ack": "the acknowledgement that ends a handshake",
            "data": "a request that arrives",
            "reset": "a reset by the client",
            "accept": "an accept",
            "read": "a read",
            "write": "a write",
            "close": "a close",
        }.items()
    },
    "ApplicationCosts": {
        "request_ns": "user code for a request, and all time that no other cost has",
        "look_ns": "the check of one connection in a scan for late ones",
        "connection_ns": "the same for a connection, for any number of requests",
    },
    "ClientCosts": {
        "connect_ns": "the load generator: opening a connection",
        "send_ns": "the load generator: sending a request",
        "receive_ns": "the load generator: receiving a reply",
        "close_ns": "the load generator: ending a connection",
        "again_ns": "its kernel: repeating a connection request",
        "interrupt_ns": "interrupting the server's CPU on the same machine",
        "connect_after_ns": "the part of connect_ns after the connection request has left",
        "close_after_ns": "the part of close_ns after the reset has left",
        "ack_ns": "acknowledging by a packet of its own",
    },
    "NetworkCosts": {"delay_ns": "the link between load generator and server, one way"},
    "SharingCosts": {
        "refill": "extra time of returning to a CPU, by microseconds that others had it"
    },
    **{entry.costs.__name__: entry.words for entry in CATALOGUE.values() if entry.words},
}


def about_cost(table: str, name: str) -> str:
    """Return the meaning of the cost *name* in a table of the kind *table*, such as `PollCosts`.

    Raises
    ------
    KeyError
        If it has no words.

    >>> about_cost("PollCosts", "scan")
    'one scan, by the number of descriptors watched'
    """
    own = OF_TABLE.get(table, {})
    return own[name] if name in own else COMMON[name]
