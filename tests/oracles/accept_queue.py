"""What a listening socket does with SYNs and ACKs, from listen(2) and Linux net/ipv4.

tcp_conn_request() drops a SYN if sk_acceptq_is_full(), which is *above* the backlog. If
inet_csk_reqsk_queue_is_full() is, a cookie answers, of which no record is kept, or the SYN is
dropped. tcp_v4_syn_recv_sock() drops an ACK if the accept queue is full: the connection stays half
open. accept() takes the first. All that is sent again is sent later than these runs last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Listened(NamedTuple):
    """What becomes of connections.

    `accepted` is what each accept() returned, None for EAGAIN, with the time at which it did.
    """

    accepted: list[tuple[int, int | None]]
    n_syn_drops: int
    n_ack_drops: int
    n_half_open: int
    n_queued: int


def listened(
    syns_ns: Sequence[int],
    accepts_ns: Sequence[int],
    backlog: int,
    delay_ns: int,
    end_ns: int,
    *,
    cookies: bool,
) -> Listened:
    """Return what becomes of SYNs sent at *syns_ns*, where accept() is called at *accepts_ns*."""
    half: list[int] = []
    by_cookie: set[int] = set()
    queue: list[int] = []
    accepted: list[tuple[int, int | None]] = []
    n_syn_drops = n_ack_drops = 0
    syns = [(at_ns + delay_ns, 0, c) for c, at_ns in enumerate(syns_ns)]
    acks = [(at_ns + 3 * delay_ns, 1, c) for c, at_ns in enumerate(syns_ns)]
    accepts = [(at_ns, 2, 0) for at_ns in accepts_ns]
    for at_ns, what, c in sorted(syns + acks + accepts):
        if at_ns > end_ns:
            break
        if what == 0:
            if len(queue) > backlog or (not cookies and len(half) > backlog):
                n_syn_drops += 1
            elif len(half) > backlog:
                by_cookie.add(c)
            else:
                half.append(c)
        elif what == 1 and (c in half or c in by_cookie):
            if len(queue) > backlog:
                n_ack_drops += 1
            else:
                half = [each for each in half if each != c]
                by_cookie.discard(c)
                queue.append(c)
        elif what == 2:
            accepted.append((at_ns, queue.pop(0) if queue else None))
    return Listened(accepted, n_syn_drops, n_ack_drops, len(half), len(queue))
