"""What each cost is, in a sentence: for references, where a name and a number are not enough.

COMMON    a name that means the same in most tables
OF_TABLE  a name that one kind of table means in its own way; a mechanism's file has its own

The docstrings of the tables say how their costs go together.
"""

from __future__ import annotations

from collections.abc import Mapping

from dispatchsim.models.catalogue import CATALOGUE

COMMON = {
    "call_ns": "the call that waits, until it looks",
    "event_ns": "each event that a wait returns",
    "notice_ns": "each notice that a wait returns",
    "recheck_ns": "an entry of the list that is found no longer ready",
    "add_ns": "one descriptor added to what is watched",
    "modify_ns": "one change of what is wanted of a descriptor",
    "delete_ns": "one descriptor taken out, by a call of its own",
    "forget_ns": "what a close takes longer, because the kernel forgets the descriptor",
    "entry_ns": "a call that tells of changes, without the changes in it",
    "scan": "one scan, by the number of descriptors watched",
    "register": "entering wait queues in a scan, by the number of descriptors passed",
    "release": "leaving those wait queues before the call returns, by their number",
    "look": "the server's own search for what is ready, by the number of descriptors watched",
    "rebuild": "the server's own, where it builds its set anew for each call, by descriptors",
    "arm_ns": "having a descriptor signal: three calls of fcntl",
    "queue_ns": "what a queued signal adds to the interrupt of its event",
    "signal_ns": "each signal that a call returns",
    "lost_ns": "what a full queue adds to an interrupt instead",
    "merged_ns": "what a signal adds that is queued already",
    "flush_ns": "recovery: throwing the queue away",
    "discard_ns": "recovery: each signal that is thrown away",
    "poll": "recovery: one poll of all that is watched, by its number",
    "keep_ns": "each change of interest where the array for recovery is kept up to date",
    "send_fd_ns": "recovery: a message that hands a descriptor over to another thread",
    "receive_fd_ns": "recovery: that message at the other thread",
    "switch": "what waking takes more where another thread had the CPU, by runnable threads",
    "saved_ns": "what falling asleep and waking take less where another thread is runnable",
    "post_ns": "what an event adds to its interrupt",
    "woken_ns": "what a call takes more that has slept",
    "complete_ns": "each completion that a call returns",
}
OF_TABLE: dict[str, Mapping[str, str]] = {
    "InterruptCosts": {
        "entry_ns": "an interrupt, once for packets that are handled in one go",
        "syn_ns": "a connection request, up to the SYN-ACK at the client",
        "ack_ns": "the rest of the handshake",
        "data_ns": "a request that arrives",
        "reset_ns": "a reset by the client",
        "idle_exit_ns": "leaving idleness: latency, not CPU time",
        "sleep_ns": "taking the server off the CPU",
        "wake_ns": "putting it back",
        "syn_after_ns": "the part of syn_ns after the SYN-ACK has left",
        "syn_saved_ns": "what of syn_ns is not spent on a SYN that is dropped",
        "data_saved_ns": "what of data_ns is not spent where its acknowledgement goes with the "
        "reply",
        "left_ns": "what sleep_ns is more when calls have left work to a thread of the kernel",
        "datagram_ns": "a datagram that finds its receive buffer full",
        "cold_ns": "what a handshake takes more that an interrupt handles alone",
        "acked_ns": "each acknowledgement of a flight of segments after the first",
        "idle_exit_since": "what idle_exit_ns is more, by microseconds of idleness",
        "entry_since": "what entry_ns is more, by microseconds since the last interrupt",
        "datagram_entry_ns": "an interrupt for a datagram instead of entry_ns",
        "way": "how long an interrupt is on its way, by the thousandth of those no longer",
    },
    "CallCosts": {
        "accept_ns": "an accept that returns a connection",
        "accept_again_ns": "an accept that finds none",
        "read_ns": "a read of a request",
        "read_again_ns": "a read that finds nothing",
        "write_ns": "a write of a reply, without its bytes",
        "write_kib_ns": "each KiB of a write",
        "close_ns": "a close",
        "accept_after_ns": "the part of accept_again_ns after its look at the queue",
        "write_after_ns": "the part of write_ns after the reply has left",
        "crowding": "what a connection costs more, by the number of those being served at once",
        "crossing_ns": "the part of each call that is the way into the kernel and back",
        "connect_ns": "socket() and connect() of a client",
        "delivery_ns": "a write handles its reply, and what comes, from so long before its end",
        "delivery_after_ns": "and until so long before its end",
        "close_delivery_ns": "the same of a close: from so long before its end",
        "close_delivery_after_ns": "and until so long before its end",
    },
    "ApplicationCosts": {
        "request_ns": "user code for a request, and whatever no other cost names",
        "look_ns": "the look at one connection in search of those that are late",
        "connection_ns": "as much for a connection, however many requests it has",
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
    },
    "NetworkCosts": {"delay_ns": "the link between load generator and server, one way"},
    "SharingCosts": {
        "refill": "what coming back to a CPU takes more, by microseconds that others had it"
    },
    **{entry.costs.__name__: entry.words for entry in CATALOGUE.values() if entry.words},
}


def about_cost(table: str, name: str) -> str:
    """Return what the cost *name* is of, in a table of the kind *table* such as `PollCosts`.

    Raises
    ------
    KeyError
        If nothing is said of it.

    >>> about_cost("PollCosts", "scan")
    'one scan, by the number of descriptors watched'
    """
    own = OF_TABLE.get(table, {})
    return own[name] if name in own else COMMON[name]
