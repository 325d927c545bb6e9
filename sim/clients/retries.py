"""Clients that retry: after a failure the client opens another connection, after a pause.

    attempt 1 ──time-out, refusal, reset──► pause ──► attempt 2 ── ... ──► reply, or an error
                                  constant, or doubled each time; shortened at random (jitter)

The server cannot connect the attempts: an abandoned attempt remains there, and the next one comes
from another port. So each attempt has its own row: the `world.rows_each` rows of one connection of
the trace are consecutive.

A budget (token bucket) bounds the retries of all clients together: each new connection of the trace
adds its share of a token, each retry takes a whole one.

Sources: Brooker 2015, "Exponential backoff and jitter" (AWS architecture blog); Finagle's
RetryBudget and gRFC A6 "client retries" (the token bucket); RFC 9110, §9.2.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..load.streams import generator
from ..state.client_settings import ClientSettings
from ..state.event_calendar import schedule
from ..state.kinds import occurrence
from ..state.world import World
from .asking import take_over

JITTER_BITS = 20
"""Random numbers of jitter are fractions of 2**20."""
BUDGET_MAX = 10_000
"""Thousandths of a token that all clients may save: ten retries (gRFC A6: 10)."""


_DRAWS = 65_536
"""Random shares by which pauses are shortened, used in turn by the rows of attempts."""


def retry_draws(client: ClientSettings, seed: int) -> NDArray[np.int64]:
    """Return random shares by which pauses are shortened, in 2**-20, made before the run."""
    if client.retries == 0 or client.retry_jitter_permille == 0:
        return np.zeros(0, np.int64)
    shares = generator(seed, "retries").random(_DRAWS)
    shares *= client.retry_jitter_permille / 1_000
    return (shares * (1 << JITTER_BITS)).astype(np.int64)


def earn_retries(world: World) -> None:
    """Add the share of a connection that begins to the budget of repetitions."""
    if world.client.retry_budget_permille > 0:
        tokens = world.retry_tokens + world.client.retry_budget_permille
        world.retry_tokens = min(BUDGET_MAX, tokens)


def pause_ns(world: World, c: int, attempt: int) -> int:
    """Return the pause of a client after *attempt*, counted from 0, of row *c*."""
    longest_ns = world.client.retry_pause_ns
    if world.client.retry_pause_max_ns > 0:
        most_ns = world.client.retry_pause_max_ns
        # Compared by division, as the doubled pause might not fit 63 bits.
        longest_ns = most_ns if longest_ns > most_ns >> attempt else longest_ns << attempt
    draw = world.retry_draws[world.row[c] % len(world.retry_draws)]
    return longest_ns - (longest_ns * draw >> JITTER_BITS)


def tries_again(world: World, c: int, at_ns: int) -> bool:
    """Plan the retry of the attempt in row *c*, failed at *at_ns*; return whether there is one."""
    if world.rows_each == 1:
        return False
    attempt = (c - world.n_idle) % world.rows_each
    if attempt + 1 == world.rows_each:
        return False
    if world.client.retry_budget_permille > 0:
        if world.retry_tokens < 1_000:
            return False
        world.retry_tokens -= 1_000
    next_c = c + 1
    # At least a nanosecond later: otherwise a client without descriptors retries in zero time.
    due_ns = at_ns + max(1, pause_ns(world, c, attempt))
    world.intended_ns[next_c] = due_ns
    take_over(world, c, next_c)
    schedule(world, due_ns, occurrence.START, next_c)
    return True
