"""Level-triggered epoll the way a user of SimPy would write it first.

    connection: a process ──packets──► CPU: a PreemptiveResource ◄──work── server: a process
    accept queue, ready list: a Store each; an idle connection: a process that waits for ever

The mechanics and the costs are those of models/epoll/epoll_level.py with free clients, without its
care for what happens within one nanosecond: CPU time and replies agree closely, not to the
nanosecond.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import simpy

from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.costs import Costs
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import SECOND_NS

Steps = Generator[simpy.Event, Any, None]


class _Socket:
    """A connection or the listener, as the server sees it."""

    def __init__(self, env: simpy.Environment, reply_bytes: int = 0) -> None:
        self.readable = self.watched = self.listed = self.last = False
        self.reply_bytes = reply_bytes
        self.reply = simpy.Event(env)


class _Model:
    """The server's machine and the processes on it; times in ns."""

    def __init__(self, trace: Trace, costs: Costs, settings: RunSettings) -> None:
        self.env = simpy.Environment(initial_time=0)
        self.trace, self.costs, self.settings = trace, costs, settings
        self.cpu = simpy.PreemptiveResource(self.env)
        self.ready = simpy.Store(self.env)
        self.accept_queue = simpy.Store(self.env)
        self.listener = _Socket(self.env)
        self.listener.watched = True
        self.sleeping = False
        self.softirq_until_ns = -1.0
        self.busy_ns = 0.0
        self.n_replied = 0
        self.n_started = 0
        self.env.process(self.serve())
        for _ in range(settings.client.idle):
            self.env.process(self.stay_idle())
        if trace.users == 0:
            self.env.process(self.arrivals())
        for _ in range(trace.users):
            self.env.process(self.user())

    # -- clients --

    def stay_idle(self) -> Steps:
        """Wait for a reply that never comes."""
        yield self.env.event()

    def arrivals(self) -> Steps:
        """Start each connection of an open loop when it is due."""
        for c, at_ns in enumerate(self.trace.at_ns.tolist()):
            yield self.env.timeout(at_ns - self.env.now)
            self.env.process(self.connection(c))

    def user(self) -> Steps:
        """Open one connection after the other, as long as the trace has any."""
        while self.n_started < len(self.trace):
            c = self.n_started
            self.n_started += 1
            yield self.env.process(self.connection(c))
            yield self.env.timeout(int(self.trace.think_ns[c]))

    def connection(self, c: int) -> Steps:
        """Connect, ask and read as often as the trace says, close."""
        env, irq = self.env, self.costs.interrupt
        delay_ns = self.settings.network.delay_ns
        socket = _Socket(env, int(self.trace.reply_bytes[c]))
        retry_ns = SECOND_NS
        yield env.timeout(delay_ns)
        yield from self.packet(irq.syn_ns)
        while len(self.accept_queue.items) > self.settings.limits.backlog:
            yield env.timeout(retry_ns)
            retry_ns *= 2
            yield from self.packet(irq.syn_ns)
        yield env.timeout(2 * delay_ns)
        yield from self.packet(irq.ack_ns)
        yield self.accept_queue.put(socket)
        self.post(self.listener)
        for request in range(int(self.trace.requests[c])):
            if request > 0:
                yield env.timeout(int(self.trace.think_ns[c]) + delay_ns)
            yield from self.packet(irq.data_ns)
            socket.reply = env.event()
            socket.last = request + 1 == self.trace.requests[c]
            self.post(socket)
            yield socket.reply
            yield env.timeout(delay_ns)
        self.n_replied += 1
        env.process(self.leave())

    def leave(self) -> Steps:
        """Have the client's close arrive at the server."""
        yield self.env.timeout(self.settings.network.delay_ns)
        yield from self.packet(self.costs.interrupt.reset_ns)

    # -- the kernel --

    def packet(self, packet_ns: int) -> Steps:
        """Handle a packet ahead of the server's work; one interrupt for all that queue."""
        env, cost_ns = self.env, packet_ns
        if self.softirq_until_ns < env.now:
            cost_ns += self.costs.interrupt.entry_ns
            self.softirq_until_ns = env.now
            if self.sleeping:
                self.softirq_until_ns += self.costs.interrupt.idle_exit_ns
                yield env.timeout(self.costs.interrupt.idle_exit_ns)
        self.softirq_until_ns += cost_ns
        with self.cpu.request(priority=0) as turn:
            yield turn
            yield env.timeout(cost_ns)
        self.busy_ns += cost_ns

    def post(self, socket: _Socket) -> None:
        """Put a socket that became readable on the ready list."""
        socket.readable = True
        if socket.watched and not socket.listed:
            socket.listed = True
            self.ready.put(socket)

    # -- the server --

    def work(self, cost_ns: int) -> Steps:
        """Work for *cost_ns* on the CPU, with interruptions."""
        left_ns: float = cost_ns
        while left_ns > 0:
            with self.cpu.request(priority=1) as turn:
                try:
                    yield turn
                    yield self.env.timeout(left_ns)
                    left_ns = 0
                except simpy.Interrupt as interrupt:
                    preempted: Any = interrupt.cause
                    left_ns -= self.env.now - preempted.usage_since
        self.busy_ns += cost_ns

    def wait(self) -> Generator[simpy.Event, Any, list[_Socket]]:
        """Return what is ready; it stays on the list to be looked at again."""
        irq, epoll = self.costs.interrupt, self.costs.mechanism
        yield from self.work(epoll.call_ns)
        events: list[_Socket] = []
        while not events:
            looked_at: list[_Socket] = []
            if not self.ready.items:
                yield from self.work(irq.sleep_ns)
                self.sleeping = True
                looked_at.append((yield self.ready.get()))
                self.sleeping = False
                yield from self.work(irq.wake_ns)
            while self.ready.items and len(looked_at) < self.settings.program.max_events:
                looked_at.append((yield self.ready.get()))
            looked_at = [socket for socket in looked_at if socket.watched]
            for socket in looked_at:
                socket.listed = False
                if socket.readable:
                    events.append(socket)
                    self.post(socket)
            yield from self.work((len(looked_at) - len(events)) * epoll.recheck_ns)
        yield from self.work(len(events) * epoll.event_ns)
        return events

    def serve(self) -> Steps:
        """Wait, accept, answer: the event loop."""
        while True:
            events = yield from self.wait()
            if self.listener in events:
                yield from self.accept_all()
            for socket in events:
                if socket is not self.listener:
                    yield from self.answer(socket)

    def accept_all(self) -> Steps:
        """Accept until EAGAIN and watch each connection."""
        call = self.costs.call
        while self.accept_queue.items:
            yield from self.work(call.accept_ns)
            socket = yield self.accept_queue.get()
            yield from self.work(self.costs.mechanism.add_ns)
            socket.watched = True
            if socket.readable:
                self.post(socket)
        yield from self.work(call.accept_again_ns)
        self.listener.readable = len(self.accept_queue.items) > 0

    def answer(self, socket: _Socket) -> Steps:
        """Read the request, write the reply, close after the last one."""
        call = self.costs.call
        yield from self.work(call.read_ns)
        socket.readable = False
        yield from self.work(self.costs.application.request_ns)
        yield from self.work(call.write_ns + socket.reply_bytes * call.write_kib_ns // 1024)
        socket.reply.succeed()
        if socket.last:
            yield from self.work(self.costs.mechanism.delete_ns)
            socket.watched = False
            yield from self.work(call.close_ns)


class FirstModelRun(NamedTuple):
    """Connections that had all their replies, and the share of busy time."""

    replied: int
    cpu_busy: float


def run_first_model(trace: Trace, costs: Costs, settings: RunSettings) -> FirstModelRun:
    """Simulate *trace* with level-triggered epoll and free clients."""
    model = _Model(trace, costs, settings)
    model.env.run(until=settings.duration_ns)
    return FirstModelRun(model.n_replied, model.busy_ns / settings.duration_ns)
