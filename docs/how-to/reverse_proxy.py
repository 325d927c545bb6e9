"""A reverse proxy in front of two back ends, which share a database of two connections."""

from collections.abc import Generator
from typing import Any

import simpy

import dispatchsim as ds

PROFILE = "epyc-family25-2cpu-linux-6.18"
THREADS = ds.Scenario.of(
    server={"mechanism": "blocking", "workers": 32},
    load={"loop": "open", "rate": "4000/s", "reply_size": "2 KiB"},
    network={"delay": "50 us"},
    machine={"profile": PROFILE},
    run={"duration": "200 ms", "warm_up": "20 ms"},
)
env = simpy.Environment()  # times are whole ns
database = simpy.Resource(env, capacity=2)


def query(_: ds.Request) -> Generator[simpy.Event, Any, None]:
    """Wait for a connection to the database, and ask it."""
    with database.request() as turn:
        yield turn
        yield env.timeout(200_000)


def forward(request: ds.Request) -> Generator[simpy.Event, Any, None]:
    """Ask the back end that was asked less often, over a kept connection or a new one."""
    number = n_asked.index(min(n_asked))
    n_asked[number] += 1
    try:
        connection = kept[number].pop() if kept[number] else (yield back_ends[number].connect())
        yield connection.request(request.size, request.reply_size, timeout=20_000_000)
        kept[number].append(connection)
    except ds.RequestError:
        request.reply_size = 64  # 502 Bad Gateway


back_ends = [ds.Server(env, THREADS, work=query, clients=False) for _ in range(2)]
kept: list[list[ds.Connection]] = [[], []]
n_asked = [0, 0]
proxy = ds.Server(env, THREADS, work=forward)
env.run(until=200_000_000)
for name, server in ("proxy", proxy), ("back end", back_ends[0]), ("back end", back_ends[1]):
    latency = server.summary().latency_ns
    print(f"{name:8}  p50 {latency.p50 / 1e3:.0f} us, p99 {latency.p99 / 1e3:.0f} us")
