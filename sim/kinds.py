"""The vocabulary of a run: what can happen, what a CPU does, what is counted, how a request ends.

Each enumeration names the rows of an array in the outcome. Code that both engines run uses plain
integers made from the members (`_READ = int(Activity.READ)`): Numba freezes them as constants and
the reference is spared a slow enumeration look-up at every step.
"""

from enum import IntEnum

SLEEP = -1
"""What a mechanism yields when it blocks until its descriptors call it."""

READABLE = 1
WRITABLE = 2
"""Bits of a descriptor's state and of an interest in it."""

NONE = -1
"""No descriptor, no connection, no time."""


class Occurrence(IntEnum):
    """What the calendar holds; the value is also the rank among occurrences at one nanosecond."""

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
    TIMEOUT = 11  # the patience of the oldest waiting client ends
    IDLE_CLOSE = 12  # an idle connection's client closes it
    MARK = 13  # the window of the measurement begins
    SAMPLE = 14  # queue lengths are read
    HANDLED = 15  # one of several CPUs has handled a packet: now the others can see it
    ANSWER = 16  # the far end of a connection that the machine opened itself answers
    DATAGRAM = 17  # datagrams of a flood reach the server
    TICK = 18  # the clock allows a CPU that polls to handle packets again
    FAULT = 19  # a fault begins, or is over
    DELIVERY = 20  # a device interrupts for the packets that have come together
    PORT_FREE = 21  # a port of the clients may be used again
    EOF = 22  # the server's FIN reaches the client
    FIN = 23  # the client's FIN reaches the server
    LAST_ACK = 24  # the client's acknowledgement of the server's FIN reaches the server
    TIME_WAIT_OVER = 25  # the server forgets a connection that it has closed first
    TIMER = 26  # a timer of the server program expires
    RST = 27  # the server's reset reaches the client
    END_OF_STEP = 31  # the CPU ends what it was doing: after all that happens at that nanosecond


class Activity(IntEnum):
    """What a nanosecond of the server's CPU was spent on: the rows of the ledger."""

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
    INTERRUPT = 11  # stolen from the running process, and billed to it by getrusage
    INTERRUPT_IDLE = 12  # while nobody ran: billed to nobody
    IDLE = 13
    SPAWN = 14  # a thread or process is begun, or ends
    CONNECT = 15  # a client's connect()
    KSOFTIRQD = 16  # a thread of the kernel handles packets
    OTHER = 17  # another process, or nobody: the CPU is away
    INTERRUPT_OTHER = 18  # stolen from these: billed to no process of the server


class Count(IntEnum):
    """What is counted; the first fifteen are the counters of the C server, by the same names.

    So are those from ASKS on, which only some mechanisms count: calls that asked for notices, what
    these brought (signals, or events of epoll), how many of a closed descriptor or of no interest,
    how often notices were lost and all was polled, and calls that told of changed interests. SHED
    is of connections that overload control has reset. SPAWNS are threads or processes begun for a
    connection, SPAWN_AGAIN those that could not be (EAGAIN): their connections were closed,
    as are those that could not be watched, WATCH_NO_SPACE (ENOSPC). CONNECTS are connections that
    the machine opened itself, as a client, whose REPLIES are those that it has read. RETRIES
    are connections that clients opened after one that failed. PACKETS are those that interrupts
    handle at once, DEFERRED those left to a thread of the kernel, and PACKET_DROPS those lost
    because too many waited for it; DATAGRAMS are of a flood, and handled. PREEMPTIONS are threads
    that had to leave their CPU to one that woke up. ACCEPT_NO_FILE are accepts that failed for the
    bound on all processes' files (ENFILE), where ACCEPT_NO_FD are for the process's own (EMFILE);
    NO_MEMORY are connection requests lost for want of memory, among SYN_DROPS. TIME_WAITS are
    connections that the server had closed before its client did, and then kept in TIME_WAIT. LATE
    are connections that the server closed because a request had not come in time.
    """

    WAITS = 0
    EVENTS = 1
    ACCEPTS = 2
    ACCEPT_AGAIN = 3
    ACCEPT_NO_FD = 4
    READS = 5
    READ_AGAIN = 6
    WRITES = 7
    WRITE_SHORT = 8
    WATCHES = 9
    REWATCHES = 10
    UNWATCHES = 11
    CLOSES = 12
    REPLIES = 13
    CONNECTIONS_OPEN = 14
    INTERRUPTS = 15
    PACKETS = 16
    SYN_DROPS = 17
    ACK_DROPS = 18
    SLEEPS = 19
    SCANNED = 20
    REGISTERED = 21
    RECHECKED = 22
    ASKS = 23
    NOTICES = 24
    NOTICES_UNWANTED = 25
    OVERFLOWS = 26
    UPDATES = 27
    SHED = 28
    SPAWNS = 29
    SPAWN_AGAIN = 30
    WATCH_NO_SPACE = 31
    CONNECTS = 32
    RETRIES = 33
    DATAGRAMS = 34
    PACKET_DROPS = 35
    DEFERRED = 36
    PREEMPTIONS = 37
    ACCEPT_NO_FILE = 38
    NO_MEMORY = 39
    TIME_WAITS = 40
    LATE = 41


class Status(IntEnum):
    """How a connection ended for its client; the codes of the load generator's records."""

    REPLIED = 0
    TIMEOUT = 1
    REFUSED = 2
    RESET = 3
    DESCRIPTORS = 4
    OPEN = 5
    DROPPED = 6  # no SYN of it was ever answered: connect() fails (ETIMEDOUT)
    PORTS = 8  # its client had no port for it (EADDRNOTAVAIL); 7 is Fate.STRANDED


class Ended(IntEnum):
    """What the server knows of the client's end of a connection."""

    NO = 0
    GONE = 1  # reset: nothing can be sent to it
    FIN = 2  # it will send no more


SERVER_CLOSED, CLIENT_CLOSED, SERVER_RESET = 1, 2, 4
"""Bits of `World.ending`: the client has the server's FIN, the client has closed, the server has
answered with a reset, after which it knows of no connection."""


class Stage(IntEnum):
    """Where the server's side of a connection is."""

    NONE = 0
    HALF_OPEN = 1
    QUEUED = 2
    ACCEPTED = 3
    CLOSED = 4
    CALLING = 5  # the machine has called, and has no answer yet
