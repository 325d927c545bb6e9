"""What the calendar holds. The number is also the rank among occurrences at the same nanosecond.

The numbers are plain integers, as in sim/state/activity.py; `kinds.Occurrence` is the enumeration.
"""

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
ANSWER = 16  # a connection that the machine opened itself is answered
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
END_OF_STEP = 31  # a CPU ends its step: after all else that happens at that nanosecond
