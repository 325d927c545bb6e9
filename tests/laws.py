"""What holds for every run, whatever it simulates: time, connections, descriptors, wake-ups."""

from __future__ import annotations

import numpy as np
from tests.contract import requests_of_connections
from tests.scenes import LONG_NS, Scene

from dispatchsim.models.catalogue import MECHANISMS
from dispatchsim.models.completions.completion_port import Port
from dispatchsim.models.signals.signal_queue import SignalMemory
from dispatchsim.models.threads.blocking import ThreadTable, has_connection
from dispatchsim.sim.clients.kept import n_before
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.kernel.interest_set import is_ready, n_listed
from dispatchsim.sim.state.client_settings import Closing
from dispatchsim.sim.state.kinds import NONE, READABLE, Count, Stage, Status
from dispatchsim.sim.state.mechanism import Trait
from dispatchsim.sim.state.program_settings import Wakes
from dispatchsim.sim.state.units import PERMILLE
from dispatchsim.sim.state.world import InterestSet, World


def check_all(scene: Scene, outcome: Outcome, world: World) -> None:
    """Check every law on what the reference engine made of *scene*."""
    time_is_conserved(outcome)
    requests_are_conserved(scene, outcome, world)
    descriptors_are_conserved(outcome, world)
    nobody_sleeps_beside_work(scene, world)
    everybody_is_answered(scene, outcome)
    nobody_is_answered_before_the_backend(scene, outcome, world)


def time_is_conserved(outcome: Outcome) -> None:
    """Each CPU's ledger adds up to the time elapsed, in the end and at the mark."""
    assert (outcome.cpu_ledger_ns.sum(axis=1) == outcome.duration_ns).all()
    assert (outcome.cpu_ledger_mark_ns.sum(axis=1) == outcome.mark_ns).all()
    assert (outcome.cpu_ledger_ns >= outcome.cpu_ledger_mark_ns).all()
    assert (outcome.cpu_ledger_mark_ns >= 0).all()


def requests_are_conserved(scene: Scene, outcome: Outcome, world: World) -> None:
    """Every connection that was offered is in one state; no request has two replies."""
    counts, status = outcome.counts, outcome.status
    assert status.size <= len(scene.trace)
    assert np.isin(status, [int(s) for s in Status]).all()
    assert counts[Count.RETRIES] <= (outcome.attempts - 1).sum()
    assert (outcome.attempts <= world.rows_each).all()
    still_open = status == Status.OPEN
    assert (outcome.done_ns[still_open] == NONE).all()
    assert (outcome.done_ns[~still_open] >= outcome.intended_ns[~still_open]).all()
    requests = np.array(world.requests)
    answered = np.array(world.answered)
    assert (answered <= requests).all()
    assert counts[Count.REPLIES] == answered.sum()
    n_had = (outcome.reply_ns != NONE).sum()
    assert n_had <= counts[Count.REPLIES] <= counts[Count.READS]
    of_each = requests_of_connections(outcome, world)[: status.size]
    in_full = of_each[status == Status.REPLIED].sum()
    assert in_full <= n_had
    assert outcome.worker_accepts.sum() == counts[Count.ACCEPTS]


def descriptors_are_conserved(outcome: Outcome, world: World) -> None:
    """What was accepted is closed or open, each descriptor has one owner, queues hold their own."""
    counts = outcome.counts
    n_open = counts[Count.CONNECTIONS_OPEN]
    assert n_open == n_before(world) + counts[Count.ACCEPTS] - counts[Count.CLOSES]
    accepted = [c for c, stage in enumerate(world.stage) if stage == Stage.ACCEPTED]
    assert len(accepted) == n_open
    assert all(world.connection_of[world.fd_of[c]] == c for c in accepted)
    for stage, in_queues in (
        (Stage.HALF_OPEN, sum(listener.n_half for listener in world.listeners)),
        (Stage.QUEUED, sum(listener.n_queued for listener in world.listeners)),
    ):
        assert world.stage.count(stage) == in_queues
    for interests in world.sets:
        assert interests.n_watched == world.watched_by.count(interests.number)
        on_list = sum(
            world.listed[fd] != 0
            for fd, number in enumerate(world.watched_by)
            if number == interests.number
        )
        assert on_list == n_listed(interests)


def nobody_sleeps_beside_work(scene: Scene, world: World) -> None:
    """No worker sleeps while a descriptor of its set is ready: not at this nanosecond, nor any.

    Where a new connection wakes one of several, or several share a set, that one must be awake.
    """
    if Trait.IN_CALLS in MECHANISMS[scene.mechanism].traits:
        nobody_sleeps_in_a_call_that_could_go_on(world)
        return
    if Trait.BY_PORT in MECHANISMS[scene.mechanism].traits:
        nobody_waits_beside_a_packet(world)
        return
    for worker in world.workers:
        # Whoever is blocked can be called; who is about to block, already.
        waiters = worker.interests.waiters[: worker.interests.n_waiting]
        # A thread that sleeps in recvmsg waits for the other thread's message, not for its set.
        if isinstance(worker.interests.own, SignalMemory) and worker.interests.own.receives:
            assert worker.number not in waiters
        else:
            assert waiters.count(worker.number) in ((1,) if worker.blocked else (0, 1))
    for fd, number in enumerate(world.watched_by):
        if number == NONE or not is_ready(world, fd):
            continue
        listener = next((one for one in world.listeners if fd in one.fds), None)
        if scene.run.program.wakes == Wakes.ONE and listener is not None:
            sets = [world.sets[world.watched_by[each]] for each in listener.fds]
            listed = [s for s, each in zip(sets, listener.fds, strict=True) if world.listed[each]]
            assert any(somebody_is_awake(world, s) for s in listed)
        else:
            assert MECHANISMS[scene.mechanism].tells(world, fd)
            assert somebody_is_awake(world, world.sets[number])


def nobody_is_answered_before_the_backend(scene: Scene, outcome: Outcome, world: World) -> None:
    """No request that needs the backend is answered before that has worked on it."""
    backend = world.backend
    if backend.connections == 0 or backend.share_permille < PERMILLE:
        return
    least_ns = min(world.backend_delay_ns) if backend.delay_drawn else backend.delay_ns
    replied = outcome.reply_ns != NONE
    assert (outcome.reply_ns - outcome.due_ns >= least_ns)[replied].all()
    sent = outcome.counts[Count.BACKEND_QUERIES]
    assert outcome.counts[Count.REPLIES] <= sent
    assert outcome.counts[Count.BACKEND_WORK_NS] >= least_ns * (sent - backend.connections)


def nobody_sleeps_in_a_call_that_could_go_on(world: World) -> None:
    """No thread sleeps over its connection, nor all of those that accept over the listener."""
    threads: ThreadTable = world.sets[0].own
    for k in range(world.backend.connections):
        if world.state[world.first_backend_fd + k] & READABLE:
            assert not world.workers[threads.thread_of[world.asker[k]]].blocked
    room = len(threads.accepting)
    in_line = [
        threads.accepting[(threads.first_accepting + i) % room] for i in range(threads.n_accepting)
    ]
    gone = [threads.gone[(threads.first_gone + i) % room] for i in range(threads.n_gone)]
    assert len({*in_line, *gone}) == len(in_line) + len(gone)
    for worker in world.workers:
        if has_connection(worker):
            assert worker.number not in (*in_line, *gone)
            assert not (worker.blocked and is_ready(world, worker.event_fd[0]))
            assert threads.thread_of[worker.event_fd[0]] == worker.number
        elif worker.blocked:
            assert worker.number in (*in_line, *gone)
    if world.listeners[0].n_queued > 0 and in_line:
        awake = [w for w in world.workers if w.number not in (*in_line, *gone)]
        assert any(not has_connection(worker) for worker in awake)


def nobody_waits_beside_a_packet(world: World) -> None:
    """No thread waits while a packet is queued and fewer run than may; no call is left undone."""
    port: Port = world.sets[0].own
    waiting = port.waiting[: port.n_waiting]
    asleep = [number for number in port.asleep if number != NONE]
    away = [*waiting, *asleep]
    assert len(set(away)) == len(away)
    assert port.n == 0 or not waiting or port.n_running >= port.running_max
    assert port.n_running == len(world.workers) - len(away) == sum(port.running_on)
    for worker in world.workers:
        assert not worker.blocked or worker.number in away
    for fd in range(len(world.interest)):
        assert world.connection_of[fd] == NONE or not is_ready(world, fd)


def somebody_is_awake(world: World, interests: InterestSet) -> bool:
    """Return whether a worker of that set has neither blocked nor decided to."""
    waiters = interests.waiters[: interests.n_waiting]
    return any(w.interests is interests and w.number not in waiters for w in world.workers)


def everybody_is_answered(scene: Scene, outcome: Outcome) -> None:
    """After a long time with nobody impatient and nothing dropped each client has its replies."""
    client, counts = scene.run.client, outcome.counts
    closed = [Count.SPAWN_AGAIN, Count.WATCH_NO_SPACE, Count.LATE]
    lost = counts[[Count.SYN_DROPS, Count.ACK_DROPS, Count.PACKET_DROPS, *closed]].sum()
    lost += client.closing == Closing.HALF_CLOSE and scene.run.program.drops_half_closed
    if outcome.duration_ns < LONG_NS or client.timeout_ns or lost:
        return
    fits = ~np.isin(outcome.status, (Status.DESCRIPTORS, Status.PORTS))
    assert outcome.status.size == len(scene.trace)
    assert (outcome.status[fits] == Status.REPLIED).all()
