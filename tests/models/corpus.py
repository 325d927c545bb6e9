"""Scenarios that both engines run alike: found by a search and shrunk, or telling by themselves.

Each is a scene and counters that show that it reaches what it is about.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenes import BUSY_CLIENT, LONG_NS, Scene, comes_at
from tests.served import Served, on_server

from dispatchsim.sim.load.workload import closed_loop
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.kernel_settings import EVERY_CPU
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.program_settings import Sharing, Wakes
from dispatchsim.sim.state.settings import Fault, FaultKind, RunSettings

OWN, LISTED = int(Sharing.NOTHING), int(Sharing.READY_LIST)
ANY = RunSettings()


def _long(
    server: Served,
    network: NetworkSettings = ANY.network,
    client: ClientSettings = ANY.client,
) -> RunSettings:
    return RunSettings(
        **server, network=network, client=client, duration_ns=LONG_NS, sample_every_ns=0
    )


CORPUS: dict[str, tuple[Scene, Mapping[int, int]]] = {
    # -- found by the search
    # Descriptor 9 left the list of one set and stood at the same number on that of the other.
    "one descriptor, two sets": (
        Scene(
            "epoll_level",
            comes_at(*[0] * 13),
            _long(on_server(workers=2, cpus=2, sharing=OWN, max_events=1, fd_limit=9)),
        ),
        {Count.REPLIES: 13},
    ),
    # A stall found the only worker asleep before its first step had been disturbed.
    "stalled while asleep": (
        Scene(
            "epoll_level",
            comes_at(10_000),
            RunSettings(
                faults=(Fault(int(FaultKind.STALL), 7_000, 100),),
                duration_ns=LONG_NS,
                sample_every_ns=0,
            ),
        ),
        {Count.REPLIES: 1},
    ),
    # The run ended while the server, told of a loss, was about to poll all.
    "ended in the middle of a recovery": (
        Scene(
            "signalfd",
            closed_loop(users=1, connections=1),
            RunSettings(
                **on_server(signal_queue=3, backlog=1, max_events=1, fd_limit=48),
                client=ClientSettings(idle=40, idle_life_ns=50_000),
                duration_ns=50_000,
                sample_every_ns=0,
            ),
        ),
        {Count.OVERFLOWS: 2},
    ),
    # The client's patience ended between the arrival of its SYN and its handling elsewhere.
    "given up while the packet waits": (
        Scene(
            "epoll_level",
            comes_at(110_000, 125_000, 135_000, 190_000, requests=2, think_ns=500),
            _long(
                on_server(
                    workers=2,
                    cpus=2,
                    sharing=OWN,
                    accept_limit=1,
                    read_after_accept=True,
                    fd_limit=9,
                    interrupt_cpu=1,
                    slice_ns=1,
                    tick_ns=3_000,
                ),
                network=NetworkSettings(delay_ns=20_000),
                client=ClientSettings(timeout_ns=20_000),
            )._replace(duration_ns=3_000_000),
        ),
        {Count.CONNECTIONS_OPEN: 0},
    ),
    # -- each by itself the corner of a feature
    "ticks closer than the way back": (
        Scene(
            "epoll_level",
            comes_at(*range(0, 20_000, 500), requests=2),
            _long(on_server(workers=5, cpus=1, slice_ns=1, tick_ns=400)),
        ),
        {Count.REPLIES: 80},
    ),
    "ticks within a scan": (
        Scene(
            "poll",
            comes_at(*range(0, 20_000, 500), requests=2),
            _long(
                on_server(workers=3, cpus=1, slice_ns=1, tick_ns=400),
                client=ClientSettings(idle=100),
            ),
        ),
        {Count.REPLIES: 80},
    ),
    "more workers than connections": (
        Scene(
            "epoll_level",
            comes_at(10_000),
            _long(on_server(workers=64, cpus=7, interrupt_cpu=6)),
        ),
        {Count.ACCEPTS: 1, Count.REPLIES: 1},
    ),
    "one woken of many": (
        Scene(
            "epoll_level",
            comes_at(*range(10_000, 200_000, 5_000)),
            _long(on_server(workers=8, cpus=8, wakes=int(Wakes.ONE))),
        ),
        {Count.REPLIES: 38},
    ),
    "a shared list, one event at a time": (
        Scene(
            "epoll_level",
            closed_loop(users=20, connections=100, requests=3, seed=3),
            _long(on_server(workers=4, cpus=4, sharing=LISTED, max_events=1)),
        ),
        {Count.ACCEPTS: 100, Count.REPLIES: 300},
    ),
    "a shared list and replies that do not fit": (
        Scene(
            "epoll_level",
            closed_loop(users=20, connections=60, requests=2, reply_bytes=20_000, seed=3),
            _long(
                on_server(workers=3, cpus=2, sharing=LISTED, send_buffer_bytes=4_096),
                network=NetworkSettings(50, 1_000_000_000, 1_000_000_000),
            ),
            BUSY_CLIENT,
        ),
        {Count.REPLIES: 120},
    ),
    "a CPU without a worker handles every packet": (
        Scene(
            "select",
            comes_at(*[10_000] * 60),
            _long(on_server(workers=2, cpus=3, interrupt_cpu=2)),
        ),
        {Count.REPLIES: 60},
    ),
    "packets everywhere, workers on two CPUs": (
        Scene(
            "poll",
            comes_at(*[10_000] * 40, requests=3),
            _long(on_server(workers=2, cpus=4, interrupt_cpu=EVERY_CPU, sharing=OWN)),
        ),
        {Count.REPLIES: 120},
    ),
    "a short queue each, full at once": (
        Scene(
            "epoll_level",
            comes_at(*[10_000] * 40),
            _long(on_server(workers=3, cpus=2, sharing=OWN, backlog=1)),
        ),
        {Count.REPLIES: 40},
    ),
    "refused by one queue while another has room": (
        Scene(
            "epoll_level",
            comes_at(*[10_000] * 9),
            _long(on_server(workers=3, cpus=3, sharing=OWN, backlog=1, refuse=True)),
        ),
        {},
    ),
    "one descriptor for five workers": (
        Scene(
            "epoll_level",
            comes_at(*[10_000] * 12),
            _long(on_server(workers=5, cpus=3, fd_limit=15, accept_limit=1)),
        ),
        {Count.REPLIES: 12},
    ),
    "impatient clients of a slow pair": (
        Scene(
            "select",
            comes_at(*range(0, 60_000, 1_000), requests=2, think_ns=500),
            _long(
                on_server(workers=2, cpus=1, slice_ns=1, tick_ns=3_000),
                client=ClientSettings(timeout_ns=20_000),
            ),
        ),
        {},
    ),
    "interests narrowed by the dozen, results for two": (
        Scene(
            "dev_poll_or",
            closed_loop(users=12, connections=60, requests=3, reply_bytes=5_000, seed=2),
            _long(
                on_server(max_events=2, send_buffer_bytes=1_000, read_after_accept=True),
                network=NetworkSettings(50, 1_000_000_000, 1_000_000_000),
            ),
            BUSY_CLIENT,
        ),
        {Count.REPLIES: 180, Count.NOTICES_UNWANTED: 0},
    ),
    "told of what is not wanted while idle ones come and go": (
        Scene(
            "dev_poll_or",
            closed_loop(users=5, connections=30, requests=2, reply_bytes=5_000, think_ns=30_000),
            RunSettings(
                **on_server(removes_first=False, send_buffer_bytes=1_000),
                client=ClientSettings(idle=40, idle_life_ns=50_000),
                duration_ns=3_000_000,
                sample_every_ns=0,
            ),
        ),
        {Count.REPLIES: 60},
    ),
    "handlers between the steps of several, and an overflow": (
        Scene(
            "rt_signals_handler",
            comes_at(*range(10_000, 60_000, 700), requests=2, think_ns=500),
            _long(on_server(workers=3, cpus=2, signal_queue=5, interrupt_cpu=EVERY_CPU)),
        ),
        {Count.REPLIES: 144},
    ),
    "more threads run than may, as some have slept in a send": (
        Scene(
            "completion_port",
            comes_at(*[10_000] * 30, requests=2, reply_bytes=5_000),
            _long(
                on_server(
                    workers=6,
                    cpus=2,
                    concurrent_threads=1,
                    sends_block=True,
                    send_buffer_bytes=1_000,
                    fd_limit=14,
                    slice_ns=1,
                    tick_ns=400,
                )
            ),
            BUSY_CLIENT,
        ),
        {Count.REPLIES: 60},
    ),
    "idle ones come and go between sets": (
        Scene(
            "epoll_level",
            comes_at(*range(0, 60_000, 1_000)),
            RunSettings(
                **on_server(workers=3, cpus=2, sharing=OWN, interrupt_cpu=EVERY_CPU),
                client=ClientSettings(idle=40, idle_life_ns=50_000),
                duration_ns=2_000_000,
                warm_up_ns=12_345,
                sample_every_ns=0,
            ),
        ),
        {Count.REPLIES: 60},
    ),
}
