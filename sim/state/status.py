"""How a connection ended for its client: the codes of the load generator's records.

The numbers are plain integers, as in sim/state/activity.py; `kinds.Status` is the enumeration.
"""

REPLIED = 0
TIMEOUT = 1
REFUSED = 2
RESET = 3
DESCRIPTORS = 4  # its client had no descriptor for it
OPEN = 5
DROPPED = 6  # no SYN of it was ever answered: connect() fails (ETIMEDOUT)
PORTS = 8  # its client had no port for it (EADDRNOTAVAIL); 7 is Fate.STRANDED
