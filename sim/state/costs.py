"""What things cost, in integer nanoseconds of the server's CPU: shared by both engines.

A profile (calibration/profiles) holds costs as functions of the number of open connections,
because the kernel's tables outgrow the caches. `Costs` is that profile resolved for one run.
Only scans stay functions here: their cost depends on the descriptors watched at each call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_KNOTS = 8
_KIB = 1024


class Curve(NamedTuple):
    """A piecewise linear function from a count to nanoseconds, by exactly eight knots.

    Attributes
    ----------
    at:
        Counts, ascending; unused knots repeat the first one.
    ns:
        Nanoseconds at each count. Beyond the last knot the last slope goes on; below the first
        one the curve is flat.
    """

    at: tuple[int, ...]
    ns: tuple[int, ...]


def curve(points: dict[int, int]) -> Curve:
    """Return the curve through at most eight *points* (count to nanoseconds).

    Raises
    ------
    ValueError
        If there are no points, more than eight, or a negative count or time.

    >>> curve_ns(curve({0: 100, 10: 1100}), 5)
    600
    >>> curve_ns(curve({0: 100, 10: 1100}), 20)
    2100
    """
    if not 1 <= len(points) <= _KNOTS:
        raise ValueError(f"a curve needs 1 to {_KNOTS} points, got {len(points)}")
    if min(points) < 0 or min(points.values()) < 0:
        raise ValueError(f"counts and times of a curve must be at least 0, got {points}")
    at = sorted(points)
    pad = _KNOTS - len(at)
    ns = [points[n] for n in at]
    # The padding goes in front, so that the last two knots always give the last slope.
    return Curve(tuple([at[0]] * pad + at), tuple([ns[0]] * pad + ns))


def flat(ns: int) -> Curve:
    """Return the curve that is *ns* everywhere."""
    return curve({0: ns})


def per_item(ns: int) -> Curve:
    """Return the curve that costs *ns* for each item."""
    return curve({0: 0, 1: ns})


def curve_ns(curve: Curve, count: int) -> int:
    """Return the nanoseconds of *curve* at *count*, rounded down to a whole nanosecond."""
    at = curve.at
    ns = curve.ns
    last = len(at) - 1
    if count >= at[last - 1]:
        k = last
    else:
        k = 1
        while at[k] < count:
            k += 1
    width = at[k] - at[k - 1]
    if width == 0:
        return ns[k]
    beyond = max(0, count - at[k - 1])
    return max(0, ns[k - 1] + beyond * (ns[k] - ns[k - 1]) // width)


class InterruptCosts(NamedTuple):
    """Receive processing on the server's CPU (softirq), and the cost of leaving idleness.

    entry_ns is spent once for packets that are handled in one go. syn_ns is the handshake up to the
    SYN-ACK at the client, ack_ns the rest of it. idle_exit_ns is latency, not CPU time; sleep_ns
    and wake_ns are the CPU times to take a server off the CPU and to put it on again.
    syn_after_ns is the part of syn_ns after the SYN-ACK has left, syn_saved_ns the part of syn_ns
    that a dropped SYN saves, data_saved_ns the part of data_ns saved when the reply carries the
    acknowledgement (sim/tcp/windows.py). cold_ns is the extra time of a handshake that an interrupt
    handles alone: behind another one it finds warm caches. left_ns is the extra sleep_ns when calls
    since the last sleep have left work to a kernel thread.
    datagram_ns is a datagram that finds its receive buffer full, acked_ns each acknowledgement of a
    flight of segments after the first. reply_acked_ns is the acknowledgement of a reply within the
    window by a packet of its own (sim/clients/acknowledging.py); 0: it is part of a write.
    datagram_entry_ns replaces entry_ns in an interrupt for a datagram, if the two were measured
    apart (0: they were not): for a segment more of TCP's code is out of the caches.
    entry_since is the extra entry_ns by the microseconds since the last interrupt on that CPU (cold
    caches). idle_exit_since is the extra idle_exit_ns by the microseconds that the CPU was idle: a
    hypervisor waits before it gives the CPU to others.
    syn_cold_ns is the extra time of a SYN that finds the CPU idle, if threads have run there since
    the last one: their code has displaced that of handshakes. On a busy CPU costs that are fitted
    at saturation presumably include it.
    idle_saved_ns is the part of entry_ns that is latency instead of CPU time if the interrupt finds
    the CPU idle: the CPU then leaves idleness, and no thread waits.
    displaced_ns is the time of a connection that no bench shows: interrupts and threads presumably
    displace each other's code and data from the caches. The accept takes it if a thread had the CPU
    when the SYN was handled, else the close. It replaces the connection_ns of a machine whose
    clients are packets.
    way is the latency of an interrupt, while the CPU runs on and further packets arrive, as a
    quantile function of thousandths: it varies with hypervisors and caches.
    """

    entry_ns: int
    syn_ns: int
    ack_ns: int
    data_ns: int
    reset_ns: int
    idle_exit_ns: int
    sleep_ns: int
    wake_ns: int
    syn_after_ns: int = 0
    syn_saved_ns: int = 0
    data_saved_ns: int = 0
    left_ns: int = 0
    datagram_ns: int = 0
    acked_ns: int = 0
    entry_since: Curve = flat(0)
    datagram_entry_ns: int = 0
    way: Curve = flat(0)
    cold_ns: int = 0
    idle_exit_since: Curve = flat(0)
    reply_acked_ns: int = 0
    syn_cold_ns: int = 0
    idle_saved_ns: int = 0
    displaced_ns: int = 0


class CallCosts(NamedTuple):
    """System calls of every server, independent of its mechanism.

    accept_after_ns is the part of accept_again_ns after accept has checked its queue,
    write_after_ns the part of write_ns after the reply has left. crowding is what a connection
    costs more among many that are open or wait to be accepted, by their number: caches and the
    kernel's allocator hold the data of some. It is paid once, with close_ns. crossing_ns is the
    part of each that is the way into the kernel and back, for servers that do not take it.
    connect_ns is a client's socket() and connect(). A write to a client on the same machine handles
    the reply for it from delivery_ns before its end until delivery_after_ns before, and what
    packets come meanwhile: they interrupt nobody. A close does so with the FIN or reset that it
    sends, from close_delivery_ns before its end until close_delivery_after_ns before.
    accept_cold_ns is the extra cost of the first accept since the CPU was idle; that of the accept
    which finds none, and of watching, are part of it. returning is what a later request on a
    connection costs more, its interrupt included, by the number of replies on other connections
    since the last one on this: the caches hold the kernel's data of those. It is paid with the
    user code's time.
    """

    accept_ns: int
    accept_again_ns: int
    read_ns: int
    read_again_ns: int
    write_ns: int
    write_kib_ns: int
    close_ns: int
    accept_after_ns: int = 0
    write_after_ns: int = 0
    crowding: Curve = flat(0)
    crossing_ns: int = 0
    connect_ns: int = 0
    delivery_ns: int = 0
    delivery_after_ns: int = 0
    close_delivery_ns: int = 0
    close_delivery_after_ns: int = 0
    accept_cold_ns: int = 0
    returning: Curve = flat(0)


def copying_ns(call: CallCosts, n_bytes: int) -> int:
    """Return the part of a write that grows with what it writes."""
    return n_bytes * call.write_kib_ns // _KIB


def sending_ns(call: CallCosts, n_bytes: int) -> int:
    """Return what a write takes until what it writes has left."""
    return max(0, call.write_ns + copying_ns(call, n_bytes) - call.write_after_ns)


class ColdCosts(NamedTuple):
    """The extra time of packets and calls if other code has run since the last of their kind.

    Each is a function of the microseconds that the CPU was idle meanwhile: the host may have run
    others there (sim/cpu/caches.py). At 0: extra time among other packets and calls, compared with
    a bench that repeats one kind.
    """

    syn: Curve = flat(0)
    ack: Curve = flat(0)
    data: Curve = flat(0)
    reset: Curve = flat(0)
    accept: Curve = flat(0)
    read: Curve = flat(0)
    write: Curve = flat(0)
    close: Curve = flat(0)


class ApplicationCosts(NamedTuple):
    """User code of the server for a request, and all work without a cost of its own.

    connection_ns is the same for a connection, spent when it is closed after an accept that kept
    it. look_ns is the check of one entry of the table of connections for a time-out.
    """

    request_ns: int
    look_ns: int = 0
    connection_ns: int = 0


class ClientCosts(NamedTuple):
    """The load generator's own CPU, one queue for all its connections; zeros: clients are free.

    again_ns is what its kernel takes to repeat a connection request, interrupt_ns what a packet
    takes that has to interrupt the server's CPU on the same machine. connect_after_ns is the part
    of connect_ns after the connection request has left, close_after_ns that of close_ns after the
    reset or FIN. ack_ns is the client's cost of sending an acknowledgement as a packet of its own;
    0: the server's CPU acknowledges for the client.
    """

    connect_ns: int
    send_ns: int
    receive_ns: int
    close_ns: int
    again_ns: int = 0
    interrupt_ns: int = 0
    connect_after_ns: int = 0
    close_after_ns: int = 0
    ack_ns: int = 0


class Costs(NamedTuple):
    """All costs of one run; `mechanism` is the cost table of the mechanism in use.

    refill is what coming back to a CPU takes more after a slice was over or a thread preempted, by
    the microseconds that others have had it meanwhile: they have filled its caches. handover_ns is
    what sleeping in a wait and waking up take less, together, where another thread is runnable.
    """

    interrupt: InterruptCosts
    call: CallCosts
    application: ApplicationCosts
    client: ClientCosts
    mechanism: Any
    refill: Curve = flat(0)
    handover_ns: int = 0
    cold: ColdCosts = ColdCosts()


def switch_ns(interrupt: InterruptCosts, saved_ns: int) -> int:
    """Return the CPU time of putting a thread on a CPU that another thread leaves.

    *saved_ns* is the time that a sleep and a wake-up save together if the CPU is not idle in
    between. It reduces the cost of falling asleep first; the rest of it reduces that of waking.
    """
    return interrupt.wake_ns - min(max(0, saved_ns - interrupt.sleep_ns), interrupt.wake_ns)


NO_INTERRUPT = InterruptCosts(0, 0, 0, 0, 0, 0, 0, 0)
"""Packets that take no time, and a CPU that wakes at once: for comparison with queueing theory."""
NO_CLIENT = ClientCosts(0, 0, 0, 0)
"""Clients on machines of their own, without cost or queue."""
