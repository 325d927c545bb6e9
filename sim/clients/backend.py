"""The backend, a station: a request waits at it, is worked on, and its reply comes back.

    query ─► one of `limit` places is free ─► working_ns ─► reply at the server's CPU
               └─► waits, in order ────────────┘

A delay runs from the start of work on a request until its reply is at the server, both network
trips included. The place is taken for that time, and the link is not occupied in addition. A reply
that the server drops is retransmitted by the timers of the backend's kernel.
"""

from __future__ import annotations

from ..state.event_calendar import schedule
from ..state.kinds import NO_CONNECTION, NONE, count, occurrence
from ..state.world import World
from ..wire.retransmission import DATA_RETRIES_MAX, DATA_RETRY_NS, RETRY_MAX_NS, timer_ns


def count_backend_times(world: World) -> None:
    """Have the counts of times include all until now, before a number of requests changes."""
    passed_ns = world.now_ns - world.accounted_ns
    world.accounted_ns = world.now_ns
    world.counts[count.BACKEND_WORK_NS] += world.n_at_work * passed_ns
    world.counts[count.BACKEND_QUEUE_NS] += world.n_in_queue * passed_ns
    world.counts[count.BACKEND_LINE_NS] += world.n_in_line * passed_ns
    if _is_full(world):
        world.counts[count.BACKEND_FULL_NS] += passed_ns


def _is_full(world: World) -> bool:
    """Return whether all places of the backend are taken."""
    return 0 < world.backend.limit <= world.n_at_work


def query_comes(world: World, k: int) -> None:
    """Start work on the request on connection *k*, or queue it."""
    count_backend_times(world)
    world.query_came_ns[k] = world.now_ns
    if not _is_full(world):
        _begin(world, k)
        return
    world.n_in_queue += 1
    world.behind[k] = NONE
    if world.first_at_backend == NONE:
        world.first_at_backend = k
    else:
        world.behind[world.last_at_backend] = k
    world.last_at_backend = k


def _begin(world: World, k: int) -> None:
    world.n_at_work += 1
    at_ns = world.now_ns + world.working_ns[k]
    schedule(world, at_ns, occurrence.BACKEND_REPLY, NO_CONNECTION - k)


def reply_leaves(world: World, k: int) -> None:
    """Send the reply on connection *k* to the server; the first waiting request takes its place.

    A lost reply is sent again, without a place.
    """
    world.n_replies_sent[k] += 1
    if world.n_replies_sent[k] > 1:
        return
    world.counts[count.BACKEND_ANSWERS] += 1
    world.counts[count.BACKEND_STAY_NS] += world.now_ns - world.query_came_ns[k]
    count_backend_times(world)
    world.n_at_work -= 1
    first = world.first_at_backend
    if first != NONE:
        world.n_in_queue -= 1
        world.first_at_backend = world.behind[first]
        _begin(world, first)


def reply_sent_again(world: World, k: int) -> None:
    """Have the backend's kernel repeat the reply on connection *k*: it was lost on its way in."""
    tries = world.n_replies_sent[k] - 1
    if tries < DATA_RETRIES_MAX:
        after_ns = min(RETRY_MAX_NS, DATA_RETRY_NS << max(0, tries - 1))
        again_ns = timer_ns(world, world.now_ns, after_ns)
        schedule(world, again_ns, occurrence.BACKEND_REPLY, NO_CONNECTION - k)
