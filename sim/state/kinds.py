"""The vocabulary of a run: marks, bits, packets as numbers, and lists of what there is.

Laws and mechanisms use plain integers (`activity.READ`): looking up a member of an enumeration
takes Python many times as long. `Activity`, `Count` and the others are the same lists as
enumerations, for code that prints names or walks through all members.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

SLEEP = -1
"""What a mechanism yields when it blocks until its descriptors call it."""

READABLE = 1
WRITABLE = 2
"""Bits of a descriptor's state and of an interest in it."""

NONE = -1
"""No descriptor, no connection, no time."""

NO_CONNECTION = -2
"""The greatest subject of an occurrence that is about no connection; CPU k has this less k."""

NOT_ENDED, IS_GONE, SENDS_NO_MORE = 0, 1, 2
"""`World.ended`: the client's end of a connection, as the server sees it. A client that has reset
it is gone: nothing can be sent to it. A client that has sent a FIN sends no more."""

SERVER_CLOSED, CLIENT_CLOSED, SERVER_RESET, RESET_LOST = 1, 2, 4, 8
"""Bits of `World.ending`: the client has the server's FIN; the client has closed; the server has
reset and forgotten the connection; the client's reset was lost."""


NEVER_NS = 1 << 62
"""Later than anything that happens."""

NICE_MIN, NICE_MAX = -20, 19
_WEIGHTS = (
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
)  # fmt: skip


def weight_of_nice(nice: int) -> int:
    """Return the weight of a thread of that nice value; threads share a CPU by their weights.

    A step is a factor of about 1.25. Source: Linux kernel/sched/core.c, sched_prio_to_weight.

    >>> weight_of_nice(0), weight_of_nice(-20), weight_of_nice(19)
    (1024, 88761, 15)
    """
    return _WEIGHTS[nice - NICE_MIN]


WEIGHT = weight_of_nice(0)
"""Of all threads but processes that compute, which may be more or less nice."""

KIND_BITS = 6
Packet = TypeVar("Packet", int, NDArray[np.int64])
"""A packet as one number, its connection and the `occurrence` that it is; or a column of them."""


def packet_of(c: int, kind: int) -> int:
    """Return the number that stands for a packet of that *kind* to *c*."""
    return (c << KIND_BITS) + kind


def packet_kind(packet: Packet) -> Packet:
    """Return which occurrence *packet* was when it came."""
    return packet & ((1 << KIND_BITS) - 1)


def packet_connection(packet: Packet) -> Packet:
    """Return the connection that *packet* came to."""
    return packet >> KIND_BITS


class activity:
    """What the time of a CPU is spent on: each activity is a row of the ledger."""

    USER = 0
    WAIT = 1
    ACCEPT = 2
    READ = 3
    WRITE = 4
    CLOSE = 5
    WATCH = 6
    REWATCH = 7
    UNWATCH = 8
    SLEEP = 9  # from the decision to block until the CPU is idle
    WAKE = 10
    INTERRUPT = 11  # taken from the running process; getrusage() bills it to that process
    INTERRUPT_IDLE = 12  # while the CPU was idle: billed to no process
    IDLE = 13
    SPAWN = 14  # a thread or process begins or ends
    CONNECT = 15  # connect() of a client
    KSOFTIRQD = 16  # a kernel thread handles packets
    OTHER = 17  # a process that is not of the server, or a stall
    INTERRUPT_OTHER = 18  # taken from one of these: billed to no process of the server
    HOST = 19  # a gap of the host, taken from a thread of the server: sim/cpu/gaps.py
    HOST_OTHER = 20  # a gap that is taken from none of these, or from nobody


class kernel_path:
    """Code of the kernel that runs for a packet or a call: what the caches may have lost of it."""

    SYN = 0
    ACK = 1  # completes a handshake
    DATA = 2  # a request
    RESET = 3
    ACCEPT = 4
    READ = 5
    WRITE = 6
    CLOSE = 7


class count:
    """What a run counts: each count is an entry of `World.counts` and of the outcome.

    Counts up to CONNECTIONS_OPEN, and those from ASKS to UPDATES, are counters of the C server by
    the same names.
    """

    WAITS = 0
    EVENTS = 1
    ACCEPTS = 2
    ACCEPT_AGAIN = 3
    ACCEPT_NO_FD = 4  # accepts that failed: the process has no descriptor left (EMFILE)
    READS = 5
    READ_AGAIN = 6
    WRITES = 7
    WRITE_SHORT = 8
    WATCHES = 9
    REWATCHES = 10
    UNWATCHES = 11
    CLOSES = 12
    REPLIES = 13  # of a connection that the machine opened itself: replies that it has read
    CONNECTIONS_OPEN = 14
    INTERRUPTS = 15
    PACKETS = 16  # handled by the interrupt itself
    SYN_DROPS = 17
    ACK_DROPS = 18
    SLEEPS = 19
    SCANNED = 20
    REGISTERED = 21
    RECHECKED = 22
    ASKS = 23  # calls that asked for notifications
    NOTICES = 24  # notifications that these calls returned: signals, or events of epoll
    NOTICES_UNWANTED = 25  # of a closed descriptor, or of one that is not watched
    OVERFLOWS = 26  # times that the server learnt of lost notifications: SIGIO was delivered
    UPDATES = 27  # calls that declared changed interests
    SHED = 28  # connections that overload control has reset
    SPAWNS = 29  # threads or processes begun for a connection
    SPAWN_AGAIN = 30  # those that could not be begun (EAGAIN): the connection is closed
    WATCH_NO_SPACE = 31  # connections that could not be watched (ENOSPC), and are closed
    CONNECTS = 32  # connections that the machine opened itself, as a client
    RETRIES = 33  # connections that clients opened after one that failed
    DATAGRAMS = 34  # of a flood, handled
    PACKET_DROPS = 35  # lost because too many packets waited
    DEFERRED = 36  # packets left to a kernel thread
    PREEMPTIONS = 37  # threads that had to leave their CPU to one that woke up
    ACCEPT_NO_FILE = 38  # accepts that failed: the whole machine has no file left (ENFILE)
    NO_MEMORY = 39  # of SYN_DROPS, those for which memory was short, and nothing before it
    TIME_WAITS = 40  # connections that the server closed first, and kept in TIME_WAIT
    LATE = 41  # connections that the server closed because a request was not complete in time
    WRITE_FAILED = 42  # writes to connections that their clients had reset (ECONNRESET, EPIPE)
    HALF_OPEN_EXPIRED = 43  # half-open connections that the server forgot: too old, or too many
    SIGNALS_LOST = 44  # events that a full queue of signals had no room for
    SIGNALS_MERGED = 45  # events whose descriptor had a signal queued already
    SIGNALS_QUEUED = 46  # signals of all workers that are queued now
    SIGNAL_QUEUE_MAX = 47  # the most of these at once since the mark
    SYN_DROPS_ACCEPT_QUEUE = 48  # of SYN_DROPS, those that found the accept queue full
    SYN_DROPS_HALF_OPEN = 49  # of SYN_DROPS, those that found too many half open
    SYN_DROPS_ABOVE = 50  # of SYN_DROPS, those of more connections than drop_above
    SEGMENTS_LOST = 51  # on the paths of clients, either way
    LINK_UP_NS = 52  # that messages of clients take on a link of finite bandwidth
    LINK_DOWN_NS = 53  # that messages of the server take
    BACKEND_QUERIES = 54  # requests that were sent to the backend
    BACKEND_REPLIES = 55  # replies of it that the server has read
    BACKEND_DISCARDED = 56  # of these, those whose client was gone
    BACKEND_LEFT = 57  # requests whose client was gone before a connection to it was free
    BACKEND_WORK_NS = 58  # time that it has worked on requests, of all requests together
    BACKEND_QUEUE_NS = 59  # time that requests have waited at it, all together
    BACKEND_LINE_NS = 60  # time that requests have waited for a connection to it, all together
    BACKEND_FULL_NS = 61  # time in which it worked on as many as it can
    BACKEND_ANSWERS = 62  # replies that have left it, each once
    BACKEND_STAY_NS = 63  # how long the requests of these were there, all together


LEVELS = (count.CONNECTIONS_OPEN, count.SIGNALS_QUEUED, count.SIGNAL_QUEUE_MAX)
"""Entries of `World.counts` that hold a number of now or a maximum: a window has no share of it."""


class occurrence:
    """What the calendar holds; the number is the rank among occurrences at the same nanosecond."""

    START = 1  # a client is due to open a connection
    SYN_AGAIN = 2  # a connection request was lost: its client sends another, or gives up
    SYN = 3  # a connection request reaches the server
    SYN_ACK = 4  # the answer to a connection request reaches a client on the server's own CPU
    CONNECTED = 5  # the SYN-ACK reaches the client
    ACK = 6  # the last packet of the handshake reaches the server
    REQUEST = 7  # the last byte of a request reaches the server
    REPLY = 8  # the last byte of a reply reaches the client
    ACKED = 9  # the client's acknowledgement frees space in the server's send buffer
    GONE = 10  # the client's reset or close reaches the server
    TIMEOUT = 11  # the timeout of the client that has waited longest expires
    IDLE_CLOSE = 12  # the client of an idle connection closes it
    MARK = 13  # the measured window begins
    SAMPLE = 14  # queue lengths are read
    HANDLED = 15  # one of several CPUs has handled a packet: now the others can see it
    ANSWER = 16  # the server replies on a connection that the machine opened
    DATAGRAM = 17  # datagrams of a flood reach the server
    TICK = 18  # the clock allows a CPU that polls to handle packets again
    FAULT = 19  # a fault begins or ends
    DELIVERY = 20  # a device interrupts for the packets that it has collected
    PORT_FREE = 21  # a port of the clients may be used again
    EOF = 22  # the server's FIN reaches the client
    FIN = 23  # the client's FIN reaches the server
    LAST_ACK = 24  # the client's acknowledgement of the server's FIN reaches the server
    TIME_WAIT_OVER = 25  # a connection that the server closed first leaves TIME_WAIT
    TIMER = 26  # a timer of the server program expires
    RST = 27  # the server's reset reaches the client
    SYN_ACK_TIMER = 28  # a half-open connection is due to have its SYN-ACK again, or to expire
    TURN = 29  # a tick at which a CPU may be given to another thread
    REQUEST_DUE = 30  # a client wants to make a request on a kept connection
    BACKEND_REPLY = 31  # a reply of the backend reaches the server
    GAP = 32  # the host takes a CPU
    ACK_DUE = 33  # the delay of an acknowledgement of a reply ends
    REPLY_ACK = 34  # the client's acknowledgement of a short reply reaches the server
    END_OF_STEP = 35  # a CPU ends its step: after all else that happens at that nanosecond


class stage:
    """How far the server's side of a connection is."""

    NONE = 0
    HALF_OPEN = 1
    QUEUED = 2
    ACCEPTED = 3
    CLOSED = 4
    CALLING = 5  # the machine has called connect(), without a SYN-ACK yet
    BY_COOKIE = 6  # it got a SYN cookie: the server has no record of it
    EXPIRED = 7  # it was half open for too long: the server has forgotten it


class status:
    """How a connection ended for its client: the codes of the load generator's records."""

    REPLIED = 0
    TIMEOUT = 1
    REFUSED = 2
    RESET = 3
    DESCRIPTORS = 4  # its client had no descriptor for it
    OPEN = 5
    DROPPED = 6  # it received no SYN-ACK: connect() fails (ETIMEDOUT)
    PORTS = 8  # its client had no port for it (EADDRNOTAVAIL); 7 is Fate.STRANDED


def enumeration(name: str, numbers: type) -> Any:
    """Return the integers of the list *numbers* as an enumeration of that *name*.

    >>> enumeration("Activity", activity)(3).name
    'READ'
    """
    members = {key: value for key, value in vars(numbers).items() if key.isupper()}
    return IntEnum(name, members, module=__name__)


Activity = enumeration("Activity", activity)
Count = enumeration("Count", count)
KernelPath = enumeration("KernelPath", kernel_path)
Occurrence = enumeration("Occurrence", occurrence)
Stage = enumeration("Stage", stage)
Status = enumeration("Status", status)
