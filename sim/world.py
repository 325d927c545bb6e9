"""The state of one run: what the server's machine and its clients know, as arrays of integers.

Plain lists in the reference engine, NumPy arrays behind a Numba structref in a compiled one; the
functions over it are the same. Indices: `c` is a connection (in order of start; the idle
population follows the trace), `fd` a descriptor of the server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .costs import Costs
from .kinds import NONE, Activity, Count, Stage, Status
from .settings import ClientSettings, NetworkSettings, RunSettings, ServerSettings
from .workload import Trace


@dataclass(slots=True, eq=False)
class World:
    """One run. Times in ns since its start; sizes: C connections, D descriptors, R requests."""

    costs: Costs
    server: ServerSettings
    network: NetworkSettings
    client: ClientSettings
    n_traced: int  # connections of the trace; the rest of C is the idle population
    n_users: int
    free_clients: bool  # clients cost nothing and wait for nothing: no queue to simulate
    # -- trace, constant: shape (C,)
    at_ns: list[int]
    requests: list[int]
    request_bytes: list[int]
    reply_bytes: list[int]
    think_ns: list[int]
    first_request: list[int]  # index of a connection's first request in due_ns and reply_ns
    idle_life_ns: list[int]  # draws for the idle population, shape (idle_lives,)
    generation: list[int]  # how often an idle connection has come back, shape (idle,)
    # -- connections: shape (C,)
    stage: list[int]
    status: list[int]
    fd_of: list[int]
    intended_ns: list[int]
    started_ns: list[int]
    connected_ns: list[int]
    done_ns: list[int]
    tries: list[int]
    left: list[int]  # requests without a reply at the client
    answered: list[int]  # replies that the server has sent whole
    pending: list[int]  # 1: a whole request waits in the receive buffer
    ended: list[int]  # 1: the client has closed or reset
    unsent: list[int]  # bytes of the reply not yet in the send buffer
    unacked: list[int]  # bytes in the send buffer
    # -- requests: shape (R,)
    due_ns: list[int]
    reply_ns: list[int]
    # -- descriptors: shape (D,)
    connection_of: list[int]
    state: list[int]
    interest: list[int]
    listed: list[int]  # 1: on the ready list
    passed: list[int]  # 1: became ready behind the running scan
    slot_of: list[int]
    slots: list[int]  # poll's array: slot -> fd
    tree: list[int]  # select's Fenwick tree over watched descriptors
    free_fds: list[int]  # min-heap
    # -- ready list (ring of D), events of the last wait (max_events)
    ready: list[int]
    event_fd: list[int]
    # -- accept queue (ring)
    queue: list[int]
    # -- accounts
    ledger_ns: list[int] = field(default_factory=lambda: [0] * len(Activity))
    counts: list[int] = field(default_factory=lambda: [0] * len(Count))
    ledger_mark_ns: list[int] = field(default_factory=lambda: [0] * len(Activity))
    counts_mark: list[int] = field(default_factory=lambda: [0] * len(Count))
    samples: list[int] = field(default_factory=list)  # flattened rows of happenings.SAMPLE_COLUMNS
    sample_every_ns: int = 0
    n_samples: int = 0
    mark_ns: int = 0
    # -- clock and CPU
    now_ns: int = 0
    idle: bool = False
    idle_from_ns: int = 0
    irq_begin_ns: int = 0
    irq_free_ns: int = NONE
    stolen_ns: int = 0
    step_begin_ns: int = 0
    step_stolen_ns: int = 0
    activity: int = 0
    woken: bool = False
    # -- descriptors
    n_free: int = 0
    next_fd: int = 0
    listener: int = NONE
    # -- interest set
    n_watched: int = 0
    first_ready: int = 0
    n_ready: int = 0
    n_events: int = 0
    posted: int = NONE  # the descriptor that the last occurrence concerned
    fresh: bool = False  # and whether it was not ready before
    scanning: bool = False
    scan_before_ns: int = 0
    scan_n: int = 0
    scan_ns: int = 0
    scan_register_n: int = 0
    scan_register_ns: int = 0
    any_passed: bool = False
    # -- listen queue
    first_queued: int = 0
    n_queued: int = 0
    n_half: int = 0
    # -- clients and links
    n_started: int = 0
    n_open: int = 0
    oldest: int = 0
    timer_set: bool = False
    client_free_ns: int = 0
    up_free_ns: int = 0
    down_free_ns: int = 0
    calendar: Any = None


def build_world(
    trace: Trace, costs: Costs, settings: RunSettings, idle_life_ns: list[int]
) -> World:
    """Return the state before a run: clients about to come, nothing open.

    Raises
    ------
    ValueError
        If a setting is out of its range.
    """
    _check(settings)
    n_idle = settings.client.idle
    n = len(trace)
    c = n + n_idle
    d = min(settings.server.fd_limit, c + 16)
    network, client = settings.network, settings.client
    free = (
        not any(costs.client)
        and not network.up_bits_per_s
        and not network.down_bits_per_s
        and client.fd_limit >= c
    )
    requests = trace.requests.tolist()
    first_request = [0]
    for k in requests:
        first_request.append(first_request[-1] + k)
    r = first_request.pop()
    return World(
        costs=costs,
        server=settings.server,
        network=network,
        client=client,
        n_traced=n,
        n_users=trace.users,
        free_clients=free,
        at_ns=trace.at_ns.tolist(),
        requests=requests + [0] * n_idle,
        request_bytes=trace.request_bytes.tolist() + [0] * n_idle,
        reply_bytes=trace.reply_bytes.tolist() + [0] * n_idle,
        think_ns=trace.think_ns.tolist() + [0] * n_idle,
        first_request=first_request + [r] * n_idle,
        idle_life_ns=idle_life_ns or [0],
        generation=[0] * max(1, n_idle),
        stage=[int(Stage.NONE)] * c,
        status=[int(Status.OPEN)] * c,
        fd_of=[NONE] * c,
        intended_ns=[NONE] * c,
        started_ns=[NONE] * c,
        connected_ns=[NONE] * c,
        done_ns=[NONE] * c,
        tries=[0] * c,
        left=requests + [0] * n_idle,
        answered=[0] * c,
        pending=[0] * c,
        ended=[0] * c,
        unsent=[0] * c,
        unacked=[0] * c,
        due_ns=[NONE] * r,
        reply_ns=[NONE] * r,
        connection_of=[NONE] * d,
        state=[0] * d,
        interest=[0] * d,
        listed=[0] * d,
        passed=[0] * d,
        slot_of=[NONE] * d,
        slots=[NONE] * d,
        tree=[0] * (d + 1),
        free_fds=[],
        ready=[NONE] * d,
        event_fd=[NONE] * max(d, 1),
        queue=[NONE] * (settings.server.backlog + 2),
        sample_every_ns=settings.sample_every_ns,
    )


def _check(settings: RunSettings) -> None:
    server, client, network = settings.server, settings.client, settings.network
    least = {
        "accept_limit": (server.accept_limit, 0),
        "backlog": (server.backlog, 1),
        "max_events": (server.max_events, 1),
        "fd_limit": (server.fd_limit, 8),
        "fd_setsize": (server.fd_setsize, 0),
        "send_buffer_bytes": (server.send_buffer_bytes, 1),
        "delay_ns": (network.delay_ns, 0),
        "up_bits_per_s": (network.up_bits_per_s, 0),
        "down_bits_per_s": (network.down_bits_per_s, 0),
        "timeout_ns": (client.timeout_ns, 0),
        "client fd_limit": (client.fd_limit, 1),
        "idle": (client.idle, 0),
        "idle_life_ns": (client.idle_life_ns, 0),
        "duration_ns": (settings.duration_ns, 1),
        "warm_up_ns": (settings.warm_up_ns, 0),
        "sample_every_ns": (settings.sample_every_ns, 0),
        "seed": (settings.seed, 0),
    }
    for name, (value, bound) in least.items():
        if value < bound:
            raise ValueError(f"{name} must be at least {bound}, got {value}")
    if settings.warm_up_ns >= settings.duration_ns:
        raise ValueError(
            f"warm_up_ns must be below duration_ns ({settings.duration_ns}), "
            f"got {settings.warm_up_ns}"
        )
