"""The clients: their arrivals, requests, waits and returns.

Clients run on one CPU of their own, like a load generator: first come, first served, each action at
its cost. If that cost is zero and links are infinite, nothing can queue, and a client's next action
is computed at once instead of scheduled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..load.streams import generator
from ..state.client_settings import ClientSettings, Closing
from ..state.event_calendar import is_led, schedule
from ..state.kinds import (
    CLIENT_CLOSED,
    NONE,
    RESET_LOST,
    SERVER_CLOSED,
    count,
    occurrence,
    stage,
    status,
)
from ..state.units import SECOND_NS
from ..state.world import World
from ..wire.network import send_reset_up, send_syn, send_up
from ..wire.retransmission import syn_retries_max
from ..wire.way import round_trip_ns
from .acknowledging import reply_received, request_leaves
from .asking import has_room, n_of_attempts_before, new_request
from .classes import are_of_users, drawn_of_class, due_user, take_class
from .client_gaps import client_turn, out_of_gap_ns
from .kept import keep_open, keeps, send_next
from .retries import earn_retries, tries_again
from .slow_clients import pieces_of


def sent_interrupt(world: World) -> None:
    """Spend the time of interrupting the server on the clients' CPU, if it is on that machine."""
    if world.delivers_own:
        client_turn(world, world.now_ns, world.costs.client.interrupt_ns)


def user_is_due(world: World, at_ns: int, client_class: int) -> None:
    """Let a user of a closed loop open the next connection of the trace at *at_ns*."""
    schedule(world, at_ns, occurrence.START, due_user(client_class))


def plan_arrival(world: World) -> None:
    """Plan the next arrival of an open loop at its time in the trace."""
    if world.next_row == world.end_row or not has_room(world):
        return
    at_ns = world.at_ns[world.next_row]
    if world.free_clients:
        # Nothing can delay the packet, so it is on its way without an occurrence of its own.
        open_connection(world, _next_connection(world, at_ns), at_ns)
    else:
        schedule(world, at_ns, occurrence.START, NONE)


def _next_connection(world: World, at_ns: int) -> int:
    c = world.next_row
    world.next_row += world.rows_each
    world.intended_ns[c] = at_ns
    new_request(world, c, at_ns)
    return c


def start(world: World, c: int) -> None:
    """Let a client open a connection now: *c*, idle or tried again, or the trace's next.

    A negative *c* stands for the class of the user (`due_user`).
    """
    if c < 0:
        if world.next_row == world.end_row or not has_room(world):
            return
        client_class = NONE - c
        c = _next_connection(world, world.now_ns)
        if are_of_users(world):
            take_class(world, c, client_class)
        earn_retries(world)
        if world.n_users == 0:
            plan_arrival(world)
    elif c >= world.n_idle and not world.is_kept:
        world.counts[count.RETRIES] += 1
    open_connection(world, c, world.now_ns)


def first_syn_sent(world: World, c: int) -> None:
    """Plan the arrival after *c* where the clients are free: one arrival is planned ahead."""
    is_first = world.tries[c] == 0 and c == world.next_row - world.rows_each
    if world.free_clients and world.n_users == 0 and is_first:
        earn_retries(world)  # now, and not when it was planned
        plan_arrival(world)


def open_connection(world: World, c: int, at_ns: int) -> None:
    """Have the client of *c* call connect() at *at_ns*, or when it has the CPU."""
    world.started_ns[c] = at_ns
    if not world.free_clients:
        world.started_ns[c] = out_of_gap_ns(world, max(at_ns, world.client_free_ns))
    if c >= world.n_idle:
        if world.n_open >= world.client.fd_limit:
            client_lost(world, c, status.DESCRIPTORS, at_ns)
            return
        if not _takes_port(world):
            client_lost(world, c, status.PORTS, at_ns)
            return
        world.n_open += 1
        _set_timer(world, c)
    client = world.costs.client
    sent_ns = client_turn(world, at_ns, client.connect_ns) - client.connect_after_ns
    schedule(world, send_syn(world, c, max(at_ns, sent_ns)), occurrence.SYN, c)


def _takes_port(world: World) -> bool:
    """Take a port for a connection; return whether there was one."""
    if world.client.ports > 0:
        if world.n_ports >= world.client.ports:
            return False
        world.n_ports += 1
    return True


def _set_timer(world: World, c: int) -> None:
    """Set the time-out of the request of *c*."""
    if world.client.timeout_ns == 0 or world.is_kept or is_led(world, c):
        return  # a request on a kept connection has a timer from when it is sent
    if world.timers_each or not world.timer_set:
        world.timer_set = True
        schedule(world, _deadline_ns(world, c), occurrence.TIMEOUT, c)


def _deadline_ns(world: World, c: int) -> int:
    """Return the end of the wait of *c* for the reply to its request.

    The wait begins when the request, or this attempt at it, was due.
    """
    due_ns = world.due_ns[world.request_of[c]]
    if not keeps(world, c):
        due_ns = max(due_ns, world.intended_ns[c])
    return due_ns + world.client.timeout_ns


def syn_sent_again(world: World, c: int) -> None:
    """Let the client of *c* repeat its SYN, or give up after the last repetition.

    Timers of the clients' kernel fire together, and it sends one packet after the other.
    """
    if world.status[c] != status.OPEN:
        return
    if world.tries[c] == syn_retries_max(world):
        world.tries[c] = 0
        client_lost(world, c, status.DROPPED, world.now_ns)
        return
    world.tries[c] += 1
    sent_ns = client_turn(world, world.now_ns, world.costs.client.again_ns)
    schedule(world, send_syn(world, c, sent_ns), occurrence.SYN, c)


def syn_ack_received(world: World, c: int, at_ns: int) -> None:
    """Give the client of *c* its SYN-ACK at *at_ns*; with a request, the client is notified."""
    world.connected_ns[c] = at_ns
    if is_led(world, c) or (not world.free_clients and world.requests[c] > 0):
        more_ns = round_trip_ns(world, c) if world.network.set_up > 1 else 0
        schedule(world, at_ns + more_ns, occurrence.CONNECTED, c)


def acknowledges_itself(world: World, c: int) -> bool:
    """Return whether the client of *c* sends the packet itself that completes its handshake.

    Hosted clients and idle connections do not: their packet comes at once.
    """
    is_plain = world.network.set_up == 1 and world.requests[c] > 0 and not is_led(world, c)
    return world.costs.client.ack_ns > 0 and is_plain


def connected(world: World, c: int) -> None:
    """Let the client of *c*, connected or done thinking, send its next request, or piece."""
    if world.status[c] != status.OPEN:
        return
    sends_acks = world.costs.client.ack_ns > 0
    if sends_acks and world.owes_ack[c] and world.n_quick[c] == NONE:  # of the SYN-ACK
        world.owes_ack[c] = 0
        acked_ns = client_turn(world, world.now_ns, world.costs.client.ack_ns)
        schedule(world, send_up(world, c, acked_ns, 0), occurrence.ACK, c)
    if keeps(world, c) and not world.is_usable[c]:
        world.is_usable[c] = 1
        send_next(world, c, world.now_ns)
        return
    request_leaves(world, c, world.now_ns)
    sent_ns = client_turn(world, world.now_ns, world.costs.client.send_ns)
    n_bytes = world.request_bytes[c]
    if world.client.request_pieces > 1:
        n_bytes = -(-n_bytes // pieces_of(world, c))
        _plan_next_piece(world, c, sent_ns)
    schedule(world, send_up(world, c, sent_ns, n_bytes), occurrence.REQUEST, c)


def request_was_sent(world: World, c: int) -> bool:
    """Return whether the client of *c*, which may have reset it by now, has sent its request.

    Free clients plan a request ahead, and a repeated packet was sent before: both may be obsolete.
    """
    if world.status[c] == status.OPEN or world.client.closing != Closing.RESET:
        return True
    if world.left[c] == 0 or world.tries[c] > 0 or world.request_of[c] == NONE:
        return False
    return max(world.connected_ns[c], world.due_ns[world.request_of[c]]) <= world.done_ns[c]


def _plan_next_piece(world: World, c: int, sent_ns: int) -> None:
    """Have the client of *c*, which has sent a piece of a request at *sent_ns*, send the next."""
    world.sent_pieces[c] += 1
    if world.sent_pieces[c] == pieces_of(world, c):
        world.sent_pieces[c] = 0
    else:
        schedule(world, sent_ns + world.client.piece_pause_ns, occurrence.CONNECTED, c)


def reply_arrives(world: World, c: int, at_ns: int) -> None:
    """Let the client of *c* take its whole reply at *at_ns*, then pause, continue or close."""
    if world.status[c] != status.OPEN:
        _answer_with_reset(world, c, at_ns)
        return
    if world.replies_acked and (world.left[c] > 1 or world.client.closing != Closing.RESET):
        reply_received(world, c, at_ns)
    read_ns = client_turn(world, at_ns, world.costs.client.receive_ns)
    if _is_too_late(world, c, read_ns):
        _answer_with_reset(world, c, at_ns)
        return
    world.reply_ns[world.request_of[c]] = read_ns
    world.left[c] -= 1
    if world.left[c] > 0:
        if keeps(world, c):
            send_next(world, c, read_ns)
        elif not is_led(world, c) and has_room(world):  # a process sends the next request itself
            due_ns = read_ns + _pause_ns(world, c)
            new_request(world, c, due_ns)
            _set_timer(world, c)
            _plan_request(world, c, due_ns)
        return
    world.done_ns[c] = read_ns
    world.status[c] = status.REPLIED
    if not _awaits_close(world, c):
        _comes_again(world, c, leave(world, c, read_ns))


def _pause_ns(world: World, c: int) -> int:
    """Return the pause of the client of *c* before its next request."""
    if world.client.pauses_drawn > 0:
        number = n_of_attempts_before(world, c) + world.requests[c] - world.left[c]
        return drawn_of_class(world, world.pause_ns, c, number)
    return world.think_ns[c]


def _is_too_late(world: World, c: int, read_ns: int) -> bool:
    """Return whether the reply to *c* comes after its time-out, which is due and ends it."""
    if world.client.timeout_ns == 0 or is_led(world, c):
        return False
    return read_ns > _deadline_ns(world, c)


def _plan_request(world: World, c: int, due_ns: int) -> None:
    """Have the client of *c* send its next request at *due_ns*."""
    if world.free_clients:
        request_leaves(world, c, due_ns)
        schedule(world, send_up(world, c, due_ns, world.request_bytes[c]), occurrence.REQUEST, c)
    else:
        schedule(world, due_ns, occurrence.CONNECTED, c)


def _awaits_close(world: World, c: int) -> bool:
    """Return whether the client of *c*, which has its last reply, still waits for the server."""
    closing = world.client.closing
    if closing == Closing.RESET or (closing == Closing.FIN and not world.program.closes_first):
        return False
    return world.ending[c] & SERVER_CLOSED == 0


def server_closed(world: World, c: int) -> None:
    """Let the server's FIN reach the client of *c*: it closes after its last reply, else fails.

    A client that has closed acknowledges the FIN. One that has reset the connection answers by a
    reset, which is a packet without effect, too.
    """
    world.ending[c] |= SERVER_CLOSED
    if world.ending[c] & CLIENT_CLOSED:
        sent_ns = world.now_ns
        if world.replies_acked:
            sent_ns = client_turn(world, sent_ns, world.costs.client.ack_ns)
        schedule(world, send_up(world, c, sent_ns, 0), occurrence.LAST_ACK, c)
    elif world.status[c] == status.REPLIED:
        # Free clients compute a reply before it has arrived.
        _comes_again(world, c, leave(world, c, max(world.now_ns, world.done_ns[c])))
    elif world.status[c] == status.OPEN and world.answered[c] < world.requests[c]:
        give_up(world, c, status.RESET)


def server_reset(world: World, c: int) -> None:
    """Let the server's reset reach the client of *c*: refused, or closed with something unread."""
    if world.status[c] == status.OPEN:
        # Before a SYN-ACK, or after one that the client has.
        why = status.REFUSED if world.stage[c] == stage.NONE else status.RESET
        client_lost(world, c, why, world.now_ns)


def _answer_with_reset(world: World, c: int, at_ns: int) -> None:
    """Reset *c*, whose client had closed it when a reply came at *at_ns*."""
    if world.client.closing != Closing.RESET or world.ending[c] & RESET_LOST:
        send_reset(world, c, at_ns)


def send_reset(world: World, c: int, at_ns: int) -> None:
    """Send a reset from the client of *c* at *at_ns*; a lost reset is not repeated."""
    arrives_ns = send_reset_up(world, c, at_ns)
    if arrives_ns == NONE:
        world.ending[c] |= RESET_LOST
    else:
        schedule(world, arrives_ns, occurrence.GONE, c)


def leave(world: World, c: int, at_ns: int) -> int:
    """Close the client's side of *c*."""
    client = world.costs.client
    closed_ns = client_turn(world, at_ns, client.close_ns)
    world.n_open -= 1
    if world.connected_ns[c] != NONE:
        # Without a SYN-ACK no packet is sent; a reset follows a SYN-ACK that is on its way.
        told_ns = max(at_ns, closed_ns - client.close_after_ns, world.connected_ns[c])
        kind = _last_words(world, c)
        if kind == occurrence.GONE:
            send_reset(world, c, told_ns)
        else:
            schedule(world, send_up(world, c, told_ns, 0), kind, c)
    kept_ns = world.client.time_wait_ns
    if world.ending[c] & SERVER_CLOSED and world.client.closing == Closing.FIN:
        kept_ns = round_trip_ns(world, c)  # closes second: waits for its ACK only
    world.ending[c] |= CLIENT_CLOSED
    _free_port(world, closed_ns + kept_ns)
    return closed_ns


def _last_words(world: World, c: int) -> int:
    """Return the packet with which a client closes *c*; it may have sent its FIN before."""
    if world.client.closing == Closing.RESET:
        return occurrence.GONE
    if world.client.closing == Closing.HALF_CLOSE and world.status[c] == status.REPLIED:
        return occurrence.LAST_ACK
    return occurrence.FIN


def _free_port(world: World, at_ns: int) -> None:
    """Let the port of a connection that has ended be used again at *at_ns*."""
    if world.client.ports > 0:
        schedule(world, at_ns, occurrence.PORT_FREE, NONE)


def _comes_again(world: World, c: int, at_ns: int) -> None:
    """Let the user of *c*, which ended at *at_ns*, open another connection in a closed loop."""
    if keeps(world, c):
        keep_open(world, c, at_ns)
    elif world.n_users > 0 and not is_led(world, c):
        user_is_due(world, at_ns + world.think_ns[c], world.class_of[c])


def client_lost(world: World, c: int, why: int, at_ns: int) -> None:
    """Notify the client of *c* at *at_ns* that it will get no reply, with the reason."""
    if c < world.n_idle:
        # An idle client has no request to lose: it tries again after another lifetime.
        again_ns = idle_life(world, c) if world.client.idle_life_ns > 0 else SECOND_NS
        schedule(world, at_ns + again_ns, occurrence.START, c)
        return
    if why not in (status.DESCRIPTORS, status.PORTS):
        world.n_open -= 1
        _free_port(world, at_ns)  # refused or reset: there is nothing to wait for
    world.status[c] = why
    world.done_ns[c] = at_ns
    _goes_on(world, c, at_ns)


def _goes_on(world: World, c: int, at_ns: int) -> None:
    """After the failure of *c*, let its client retry, or its user open the next connection."""
    if is_led(world, c):
        return
    if keeps(world, c):
        keep_open(world, c, at_ns)
    elif not tries_again(world, c, at_ns) and world.n_users > 0:
        # At least a nanosecond later: otherwise time stands still for a user without descriptors.
        user_is_due(world, at_ns + max(1, world.think_ns[c]), world.class_of[c])


def timeout(world: World, c: int) -> None:
    """Time out the request of *c*, or of the oldest waiting connection."""
    if world.timers_each:
        if world.status[c] == status.OPEN and _has_waited(world, c):
            give_up(world, c, status.TIMEOUT)
    else:
        _oldest_times_out(world)


def _has_waited(world: World, c: int) -> bool:
    """Return whether the request of *c* has timed out: the timer may be an earlier request's.

    A client without room for a request makes none.
    """
    return world.request_of[c] != NONE and _deadline_ns(world, c) <= world.now_ns


def give_up(world: World, c: int, why: int) -> None:
    """Let the client of *c* close it, without all its replies."""
    world.status[c] = why
    world.done_ns[c] = world.now_ns
    closed_ns = leave(world, c, world.now_ns)
    _goes_on(world, c, closed_ns)


def _oldest_times_out(world: World) -> None:
    """Time out the oldest waiting client, and set the timer for the next oldest."""
    while world.oldest < world.next_row and not _waits_with_others(world, world.oldest):
        world.oldest += 1
    world.timer_set = world.oldest < world.next_row
    if not world.timer_set:
        return
    c = world.oldest
    due_ns = world.intended_ns[c] + world.client.timeout_ns
    if due_ns <= world.now_ns:
        # One at a time: no occurrence has more than a few consequences.
        world.oldest += 1
        give_up(world, c, status.TIMEOUT)
        due_ns = world.now_ns
    schedule(world, due_ns, occurrence.TIMEOUT, c)


def _waits_with_others(world: World, c: int) -> bool:
    """Return whether the client of *c* still waits, by the common timer of all clients."""
    return world.status[c] == status.OPEN and not is_led(world, c)


_IDLE_DRAWS = 65_536
"""Random lifetimes of idle connections, which take a new one at each return."""


def idle_lives_ns(client: ClientSettings, seed: int) -> NDArray[np.int64]:
    """Return lifetimes of idle connections, made before the run; none if they stay."""
    if client.idle_life_ns == 0 or client.idle == 0:
        return np.zeros(0, np.int64)
    n_draws = max(_IDLE_DRAWS, client.idle)
    drawn = generator(seed, "idle").exponential(client.idle_life_ns, n_draws)
    return np.maximum(1, np.rint(drawn)).astype(np.int64)


def idle_life(world: World, c: int) -> int:
    """Return the lifetime of the idle connection *c*: another random number each time."""
    return world.idle_life_ns[(c + world.generation[c] * 7_919) % len(world.idle_life_ns)]


def idle_closes(world: World, c: int) -> None:
    """Close the idle connection *c* by its client; it returns after the server's close."""
    if world.stage[c] == stage.ACCEPTED:
        world.ending[c] = CLIENT_CLOSED
        schedule(world, send_up(world, c, world.now_ns, 0), occurrence.GONE, c)
    else:
        # Still knocking: an idle client closes only what is open.
        schedule(world, world.now_ns + idle_life(world, c), occurrence.IDLE_CLOSE, c)


def idle_may_return(world: World, c: int, known_ns: int) -> None:
    """Open the idle connection *c* again after its client has received the server's close."""
    has_left = world.ending[c] & CLIENT_CLOSED != 0
    world.stage[c] = stage.NONE
    world.ended[c] = 0
    world.ending[c] = 0
    world.tries[c] = 0
    world.status[c] = status.OPEN
    schedule(world, known_ns, occurrence.START, c)
    if world.client.idle_life_ns > 0 and has_left:  # otherwise its end is due still
        world.generation[c] += 1
        schedule(world, world.now_ns + idle_life(world, c), occurrence.IDLE_CLOSE, c)
