"""What the time of a CPU is spent on: each activity is a row of the ledger.

The numbers are plain integers because both engines use them at every step. `kinds.Activity` is
the same list as an enumeration, for code that prints names or walks through all of them.
"""

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
