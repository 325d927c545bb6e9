"""The clients, and the link between them and the server."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from .setting import Setting
from .units import MILLIONTHS, PERMILLE, SECOND_NS


class Closing(IntEnum):
    """How clients end their connections."""

    RESET = 0  # one packet, and all is forgotten
    FIN = 1  # close(): either side sends a FIN, which the other one acknowledges
    HALF_CLOSE = 2  # shutdown() behind the last request: the FIN goes before the reply has come


LINEAR_SYN_TIMEOUTS_MAX = 100
"""Tries are counted in a byte; Linux takes no more than MAX_TCP_SYNCNT (127) of them."""
PIECES_MAX = 30_000
"""Of a request: they are counted in two bytes."""
RETRIES_MAX = 30
"""Of a connection: every attempt takes memory, used or not."""
PAUSE_MAX_NS = 1 << 42
"""About 73 minutes: a pause times a draw of jitter fits 63 bits."""


class PathSettings(NamedTuple):
    """What lies between some clients and the link; a bandwidth of 0 is without limit.

    It is the path of share_permille of the connections. delay_ns is one way; of a million segments
    loss_millionths are lost, each way.
    """

    share_permille: Annotated[int, Setting(least=0, key=None)]
    delay_ns: Annotated[int, Setting(least=0, most="10 s")] = 0
    """One way, besides that of the link."""
    up_bits_per_s: Annotated[
        int, Setting(least=0, file_least="1 kbit/s", most="1000 Gbit/s", absent_is_0=True)
    ] = 0
    """From the client; absent: no limit."""
    down_bits_per_s: Annotated[
        int, Setting(least=0, file_least="1 kbit/s", most="1000 Gbit/s", absent_is_0=True)
    ] = 0
    """To the client; absent: no limit."""
    loss_millionths: Annotated[int, Setting(least=0, run_most=MILLIONTHS - 1, key=None)] = 0


class NetworkSettings(NamedTuple):
    """The link between clients and server; a bandwidth of 0 is without limit.

    window_segments may be under way of a reply at first (RFC 6928: 10), more after each round trip,
    up to receive_window_bytes (0: no bound); with 0 segments all of a reply is sent at once.

    set_up is how many round trips there are before the first request leaves: 1 of the handshake; 0
    where it rides along with the SYN (TCP Fast Open, RFC 7413), unless the accept queue is full; 2
    where another one follows the handshake (TLS 1.3, of whose CPU time nothing is known here).
    paths are those of clients to the link, with shares that add up to a thousand; none: they are at
    the link.

    Up is to the machine that is simulated. Where that is the client, service_ns is what the far end
    takes to answer a request.

    What is lost is sent again by the timers of kernels that count ticks of timer_tick_ns (Linux:
    1/CONFIG_HZ; see sim/wire/retransmission.py); 0: at its very time.

    With one_machine and no delay clients are on the machine of the server, whose CPU handles what
    they receive, too: SYN-ACKs and what acknowledges them wait their turn behind other packets. (A
    testbed of two network namespaces, whose receive processing is steered to one CPU.) Otherwise
    what comes without a delay is there before anything else can be.
    """

    delay_ns: Annotated[int, Setting(least=0, key=None)] = 0
    up_bits_per_s: Annotated[
        int,
        Setting(
            least=0, file_least="1 kbit/s", most="1000 Gbit/s", absent_is_0=True, left_alone=True
        ),
    ] = 0
    """From the clients; absent: without limit."""
    down_bits_per_s: Annotated[
        int,
        Setting(
            least=0, file_least="1 kbit/s", most="1000 Gbit/s", absent_is_0=True, left_alone=True
        ),
    ] = 0
    """To the clients; absent: without limit."""
    service_ns: Annotated[int, Setting(least=0, key=None, left_alone=True)] = 0
    window_segments: Annotated[
        int, Setting(least=0, most=1_000_000, key="window", left_alone=True)
    ] = 0
    """Segments of a reply that may be under way at first, more after each round trip (Linux: 10);
    0: all of a reply is sent at once."""
    receive_window_bytes: Annotated[
        int,
        Setting(least=0, file_least="1 KiB", most="1048576 GiB", absent_is_0=True, left_alone=True),
    ] = 0
    """What a client takes before it acknowledges; absent: no bound."""
    set_up: Annotated[int, Setting(least=0, run_most=2, key=None, left_alone=True)] = 1
    paths: tuple[PathSettings, ...] = ()
    timer_tick_ns: Annotated[int, Setting(least=0, most="100 ms")] = 0
    """Of kernels whose timers send again what was lost: at a tick, and in steps of 8 after 63
    (Linux with CONFIG_HZ=250 has "4 ms", so a second goes off in steps of 32 ms); 0: at its very
    time."""
    one_machine: bool = False


class ClientSettings(NamedTuple):
    """The clients besides their trace: patience, descriptors, and the idle population.

    Idle connections are open when the run begins. With idle_life_ns each is closed by its client
    after an exponential time of that mean and opened again at once; 0: they stay.

    closing is how they end their connections, as in `Closing`. With FINs they close when they have
    their last reply, or when the server has where that closes first. The idle population resets.

    A client repeats a SYN that is not answered after time-outs that double from the second on;
    linear_syn_timeouts more of the first length come before (net.ipv4.tcp_syn_linear_timeouts: 4
    since Linux 6.5). The first, and that of the server's SYN-ACK, takes syn_timeout_ns: 1 s since
    RFC 6298, 3 s before (RFC 1122; Linux until 3.0).

    Each connection takes one of the clients' ports (net.ipv4.ip_local_port_range: 28232 an address;
    0: no bound), and keeps it for time_wait_ns after its client has closed it (60 s on Linux where
    the client closes first; 0: clients that reset).

    A request of pieces_permille of the connections comes in request_pieces (1: whole), with
    piece_pause_ns between.

    With pauses_drawn each pause between two requests of a connection is drawn (`World.pause_ns`);
    otherwise all of a connection are as long as the trace says.

    A connection that fails is tried again, retries times at most, and each attempt has timeout_ns.
    It goes on with the request that failed.
    Before is a pause of retry_pause_ns, doubled each time up to retry_pause_max_ns (0: it stays the
    same), less a random share of it, of at most retry_jitter_permille. All clients together repeat
    no more than retry_budget_permille of what they have begun, of which ten may be saved up (0: no
    bound).
    """

    timeout_ns: Annotated[
        int, Setting(least=0, file_least="1 ms", most="1 h", absent_is_0=True)
    ] = 0
    """How long a client waits for the reply to a request, from when it was due; then it gives up,
    and closes its connection. Absent: for ever."""
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
    """Of a request: each is an event and a read, and only the last is answered."""
    piece_pause_ns: Annotated[int, Setting(least=0, most="1 h", left_alone=True)] = 0
    """Between two of them."""
    pieces_permille: Annotated[int, Setting(least=0, run_most=PERMILLE, key="piece_share")] = 1_000
    """Of the connections whose requests come in pieces."""
    pauses_drawn: Annotated[int, Setting(least=0, run_most=1, key=None, left_alone=True)] = 0
    retries: Annotated[int, Setting(least=0, run_most=RETRIES_MAX, left_alone=True)] = 0
    """How often a client whose connection failed opens another one, at most; each has the whole
    time-out."""
    retry_pause_ns: Annotated[int, Setting(least=0, most="1 h", run_most=PAUSE_MAX_NS)] = 0
    """Before the first of them."""
    retry_pause_max_ns: Annotated[
        int, Setting(least=0, file_least="0 s", most="1 h", run_most=PAUSE_MAX_NS, absent_is_0=True)
    ] = 0
    """The pause doubles each time, up to this; absent: it stays the same."""
    retry_jitter_permille: Annotated[int, Setting(least=0, run_most=PERMILLE)] = 0
    """The largest share of a pause, drawn for each, that is not waited."""
    retry_budget_permille: Annotated[
        int, Setting(least=0, file_least=1, most=10 * PERMILLE, absent_is_0=True)
    ] = 0
    """Repetitions of all clients together per connection that they have begun, of which ten may be
    saved up; absent: without bound."""
