"""The clients, and the link between them and the server."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from .setting import Setting
from .units import MILLIONTHS, PERMILLE, SECOND_NS


class Closing(IntEnum):
    """How clients close their connections."""

    RESET = 0  # one packet, no state remains
    FIN = 1  # close(): each side sends a FIN, which the other side acknowledges
    HALF_CLOSE = 2  # shutdown() after the last request: the FIN leaves before the reply arrives


LINEAR_SYN_TIMEOUTS_MAX = 100
"""Tries are counted in a byte; Linux allows at most MAX_TCP_SYNCNT (127)."""
PIECES_MAX = 30_000
"""Pieces of a request are counted in two bytes."""
RETRIES_MAX = 30
"""Retries of a connection; each possible attempt takes memory."""
PAUSE_MAX_NS = 1 << 42
"""About 73 minutes: a pause times a random number of jitter fits 63 bits."""


class PathSettings(NamedTuple):
    """The network path between some clients and the link; a bandwidth of 0 has no limit.

    share_permille of the connections use the path. delay_ns is one way. Each way loses
    loss_millionths of its segments.
    """

    share_permille: Annotated[int, Setting(least=0, key=None)]
    delay_ns: Annotated[int, Setting(least=0, most="10 s")] = 0
    """One-way delay, in addition to the delay of the link."""
    up_bits_per_s: Annotated[
        int, Setting(least=0, file_least="1 kbit/s", most="1000 Gbit/s", absent_is_0=True)
    ] = 0
    """Bandwidth from the client; absent: no limit."""
    down_bits_per_s: Annotated[
        int, Setting(least=0, file_least="1 kbit/s", most="1000 Gbit/s", absent_is_0=True)
    ] = 0
    """Bandwidth to the client; absent: no limit."""
    loss_millionths: Annotated[int, Setting(least=0, run_most=MILLIONTHS - 1, key=None)] = 0


class NetworkSettings(NamedTuple):
    """The link between clients and server; a bandwidth of 0 has no limit.

    At first window_segments of a reply may be in flight (RFC 6928: 10), then more after each round
    trip, up to receive_window_bytes (0: no bound). With 0 segments a reply is sent at once.

    set_up is the number of round trips before the first request leaves. 1: the handshake. 0: the
    SYN carries the request (TCP Fast Open, RFC 7413), unless the accept queue is full. 2: one more
    round trip follows the handshake (TLS 1.3, without its CPU time).
    paths lead from clients to the link, with shares that add up to 1000; without paths, clients are
    at the link.

    Up is the direction to the simulated machine. Where that machine is the client, service_ns is
    the time that the server takes for a reply.

    Kernel timers that count ticks of timer_tick_ns retransmit lost packets (Linux: 1/CONFIG_HZ; see
    sim/wire/retransmission.py); 0: at the exact time.

    With one_machine and no delay, clients are on the server's machine, and its CPU handles the
    packets that they receive, too: SYN-ACKs and their acknowledgements queue behind other packets
    (a testbed of two network namespaces with all receive processing on one CPU). Otherwise a packet
    without delay arrives before any other event.
    """

    delay_ns: Annotated[int, Setting(least=0, key=None)] = 0
    up_bits_per_s: Annotated[
        int,
        Setting(
            least=0, file_least="1 kbit/s", most="1000 Gbit/s", absent_is_0=True, left_alone=True
        ),
    ] = 0
    """Bandwidth from the clients; absent: no limit."""
    down_bits_per_s: Annotated[
        int,
        Setting(
            least=0, file_least="1 kbit/s", most="1000 Gbit/s", absent_is_0=True, left_alone=True
        ),
    ] = 0
    """Bandwidth to the clients; absent: no limit."""
    service_ns: Annotated[int, Setting(least=0, key=None, left_alone=True)] = 0
    window_segments: Annotated[
        int, Setting(least=0, most=1_000_000, key="window", left_alone=True)
    ] = 0
    """Initial congestion window: segments of a reply in flight at first, more after each round trip
    (Linux: 10); 0: the whole reply is sent at once."""
    receive_window_bytes: Annotated[
        int,
        Setting(least=0, file_least="1 KiB", most="1048576 GiB", absent_is_0=True, left_alone=True),
    ] = 0
    """Bytes that may be in flight to a client before it acknowledges; absent: no bound."""
    set_up: Annotated[int, Setting(least=0, run_most=2, key=None, left_alone=True)] = 1
    paths: tuple[PathSettings, ...] = ()
    timer_tick_ns: Annotated[int, Setting(least=0, most="100 ms")] = 0
    """Tick of the kernel timers that retransmit lost packets. Above 63 ticks they fire in steps of
    8 (Linux with CONFIG_HZ=250: "4 ms", so a timer of 1 s fires in steps of 32 ms). 0 s: exact
    timers."""
    one_machine: bool = False


class ClientSettings(NamedTuple):
    """The clients apart from their trace: time-outs, descriptors, retries, idle connections.

    Idle connections are open when the run begins. With idle_life_ns each client closes its
    connection after an exponential time of that mean and opens another at once; 0: they stay.

    closing is how clients close connections, as in `Closing`. With FINs a client closes after its
    last reply, or after the server where the server closes first. Idle connections are reset.

    A client repeats a SYN without a reply after time-outs that double from the second on. Before
    them come linear_syn_timeouts more of the first length (net.ipv4.tcp_syn_linear_timeouts: 4
    since Linux 6.5). The first time-out, and that of the server's SYN-ACK, is syn_timeout_ns: 1 s
    since RFC 6298, 3 s before (RFC 1122; Linux until 3.0).

    Each connection takes one of the clients' ports (net.ipv4.ip_local_port_range: 28232 an address;
    0: no bound). It keeps the port for time_wait_ns after its client has closed (60 s on Linux if
    the client closes first; 0: clients that reset).

    The requests of pieces_permille of the connections arrive in request_pieces (1: whole), with
    piece_pause_ns between pieces.

    With pauses_drawn each pause between two requests of a connection is random (`World.pause_ns`);
    otherwise all pauses of a connection have the length in the trace.

    A client opens a failed connection again, at most retries times. Each attempt has timeout_ns and
    continues with the request that failed. Before an attempt the client waits retry_pause_ns,
    doubled each time up to retry_pause_max_ns (0: constant), minus a random share of at most
    retry_jitter_permille. All clients together repeat at most retry_budget_permille of the
    connections that they have begun, of which ten may be saved up (0: no bound).
    """

    timeout_ns: Annotated[
        int, Setting(least=0, file_least="1 ms", most="1 h", absent_is_0=True)
    ] = 0
    """Longest time from the due time of a request to its reply; then the client closes its
    connection. Absent: none."""
    fd_limit: Annotated[int, Setting(least=1, key=None)] = 1_048_576
    idle: Annotated[int, Setting(least=0, key=None)] = 0
    idle_life_ns: Annotated[int, Setting(least=0, key=None, left_alone=True)] = 0
    closing: Annotated[int, Setting(words=Closing, key=None)] = int(Closing.RESET)
    linear_syn_timeouts: Annotated[
        int, Setting(least=0, run_most=LINEAR_SYN_TIMEOUTS_MAX, key=None)
    ] = 0
    syn_timeout_ns: Annotated[int, Setting(least=1, run_most=PAUSE_MAX_NS, key=None)] = SECOND_NS
    ports: Annotated[
        int, Setting(least=0, file_least=1, most=2**40, absent_is_0=True, left_alone=True)
    ] = 0
    """Ports of all clients together, 28232 an address on Linux; absent: no bound."""
    time_wait_ns: Annotated[int, Setting(least=0, key=None)] = 0
    request_pieces: Annotated[
        int, Setting(least=1, run_most=PIECES_MAX, key="pieces", left_alone=True)
    ] = 1
    """Pieces of a request: each is one event and one read. The server replies after the last."""
    piece_pause_ns: Annotated[int, Setting(least=0, most="1 h", left_alone=True)] = 0
    """Pause between two pieces of a request."""
    pieces_permille: Annotated[int, Setting(least=0, run_most=PERMILLE, key="piece_share")] = 1_000
    """Share of the connections whose requests come in pieces."""
    pauses_drawn: Annotated[int, Setting(least=0, run_most=1, key=None, left_alone=True)] = 0
    retries: Annotated[int, Setting(least=0, run_most=RETRIES_MAX, left_alone=True)] = 0
    """Largest number of further connections that a client opens after a failure; each has the full
    time-out."""
    retry_pause_ns: Annotated[int, Setting(least=0, most="1 h", run_most=PAUSE_MAX_NS)] = 0
    """Pause before the first retry."""
    retry_pause_max_ns: Annotated[
        int, Setting(least=0, file_least="0 s", most="1 h", run_most=PAUSE_MAX_NS, absent_is_0=True)
    ] = 0
    """Maximum of the pause, which doubles with each retry; absent: constant pause."""
    retry_jitter_permille: Annotated[int, Setting(least=0, run_most=PERMILLE)] = 0
    """Largest share by which a pause is shortened at random."""
    retry_budget_permille: Annotated[
        int, Setting(least=0, file_least=1, most=10 * PERMILLE, absent_is_0=True)
    ] = 0
    """Number of retries allowed for each connection that clients begin, counted over all clients
    together. At most ten unused retries are saved. Absent: no bound."""
