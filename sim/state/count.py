"""What a run counts: each count is an entry of `World.counts` and of the outcome.

Counts up to CONNECTIONS_OPEN, and those from ASKS to UPDATES, are counters of the C server by the
same names. The numbers are plain integers, as in sim/state/activity.py; `kinds.Count` is the
enumeration.
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
OVERFLOWS = 26  # notifications were lost, and all descriptors were polled
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
NO_MEMORY = 39  # of SYN_DROPS, those lost because memory was short
TIME_WAITS = 40  # connections that the server closed first, and kept in TIME_WAIT
LATE = 41  # connections that the server closed because a request was not complete in time
