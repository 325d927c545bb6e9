"""The lengths of a server's queues, and its memory: as of now, and sampled over the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..kernel import memory
from ..kernel.interest_set import n_listed
from ..state.event_calendar import schedule
from ..state.kinds import NONE, count, occurrence
from ..state.world import World

Measure = Callable[[World], int]
"""Reads the length of a queue off the world."""


QUEUES: Mapping[str, Measure] = {
    "half_open": lambda world: sum(listener.n_half for listener in world.listeners),
    "accept_queue": lambda world: sum(listener.n_queued for listener in world.listeners),
    "ready": lambda world: sum(n_listed(interests) for interests in world.sets),
    "connections_open": lambda world: world.counts[count.CONNECTIONS_OPEN],
    "watched": lambda world: sum(interests.n_watched for interests in world.sets),
    "runnable": lambda world: sum(cpu.n_runnable for cpu in world.cpus),
    "packets_waiting": lambda world: sum(cpu.n_packets for cpu in world.cpus),
}
"""Lengths that every server has.

Of connections half open, to be accepted and accepted; of descriptors on ready lists and in interest
sets; of threads that wait for a CPU; and of packets that wait for the kernel's thread.
"""

SAMPLED_QUEUES = ("half_open", "accept_queue", "ready_list", "connections_open")
"""The queues whose lengths are sampled."""
SAMPLED_MEMORY = ("sockets", "buffers", "watches", "threads", "time_wait")
"""What memory is sampled of, in bytes: sim/kernel/memory.py."""
SAMPLE_COLUMNS = ("at_ns", *SAMPLED_QUEUES, *SAMPLED_MEMORY)
"""The columns of a sample."""


def take_sample(world: World) -> None:
    """Append the queue lengths and the memory of now to the samples, and plan the next sample."""
    n_half, n_queued, n_ready = 0, 0, 0
    for i in range(len(world.listeners)):
        n_half += world.listeners[i].n_half
        n_queued += world.listeners[i].n_queued
    for i in range(len(world.sets)):
        n_ready += n_listed(world.sets[i])
    row = world.n_samples * len(SAMPLE_COLUMNS)
    world.samples[row] = world.now_ns
    world.samples[row + 1] = n_half
    world.samples[row + 2] = n_queued
    world.samples[row + 3] = n_ready
    world.samples[row + 4] = world.counts[count.CONNECTIONS_OPEN]
    world.samples[row + 5] = memory.sockets_bytes(world)
    world.samples[row + 6] = memory.buffers_bytes(world)
    world.samples[row + 7] = memory.watches_bytes(world)
    world.samples[row + 8] = memory.threads_bytes(world)
    world.samples[row + 9] = memory.time_wait_bytes(world)
    world.n_samples += 1
    schedule(world, world.now_ns + world.sample_every_ns, occurrence.SAMPLE, NONE)
