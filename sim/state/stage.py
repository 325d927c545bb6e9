"""How far the server's side of a connection is.

The numbers are plain integers, as in sim/state/activity.py; `kinds.Stage` is the enumeration.
"""

NONE = 0
HALF_OPEN = 1
QUEUED = 2
ACCEPTED = 3
CLOSED = 4
CALLING = 5  # the machine has called connect(), and has no answer yet
