"""A server as a component: what processes ask of it, what it does for them, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, cast

import pytest
import simpy
from simpy.rt import RealtimeEnvironment

import dispatchsim as ds
from dispatchsim.models.catalogue import MECHANISMS
from dispatchsim.scenario.metrics import metrics_of
from dispatchsim.sim.state.kinds import Count, Status

Process = Generator[simpy.Event, Any, Any]


def scenario(mechanism: str = "epoll_level", **sections: dict[str, Any]) -> ds.Scenario:
    """Return 20 ms of an open loop, but for what *sections* say."""
    given: dict[str, dict[str, Any]] = {
        "server": {"mechanism": mechanism},
        "load": {"loop": "open"},
        "network": {"delay": "10 us"},
        "machine": {"profile": "counted-linux-6.1-unmerged"},  # it prices all mechanisms
        "run": {"duration": "20 ms", "warm_up": "2 ms", "replications": 1},
    }
    for name, values in sections.items():
        given[name] = {**given.get(name, {}), **values}
    if given["load"]["loop"] == "open":
        given["load"].setdefault("rate", "4000/s")
    return ds.Scenario.of(**given)


def quiet(env: simpy.Environment, asked: ds.Scenario | None = None, **more: Any) -> ds.Server:
    """Return a server to which processes come alone."""
    return ds.Server(env, asked or scenario(), clients=False, **more)


def after(env: simpy.Environment, event: simpy.Event) -> Any:
    """Run until *event*, and return its value."""
    return env.run(until=event)


def latency_ms(event: simpy.Event) -> int:
    """Return the latency of a reply, in whole milliseconds."""
    reply: Any = event.value
    return int(reply.latency_ns // 1_000_000)


def failure(env: simpy.Environment, event: simpy.Event) -> BaseException:
    """Return what *event* throws into a process that waits for it."""

    def waits() -> Process:
        try:
            yield event
        except ds.RequestError as error:
            return error
        raise AssertionError("it has not failed")

    error: BaseException = after(env, env.process(waits()))
    return error


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "load", [{"rate": "4000/s"}, {"loop": "closed", "users": 9}], ids=["open", "closed"]
)
def test_alone_it_is_the_run_of_the_scenario(mechanism: str, load: dict[str, Any]) -> None:
    asked = scenario(mechanism, load=load)
    env = simpy.Environment()
    server = ds.Server(env, asked)
    env.run()
    expected = ds.run(asked, engine="reference").replications[0].summary
    assert metrics_of(server.summary()) == metrics_of(expected)
    assert env.now == 20_000_000


@pytest.mark.parametrize("mechanism", ["epoll_level", "blocking"])
def test_alone_it_asks_its_backend_as_in_a_run(mechanism: str) -> None:
    asked = scenario(mechanism, backend={"delay": "300 us", "connections": 3, "limit": 2})
    env = simpy.Environment()
    server = ds.Server(env, asked)
    env.run()
    summary = server.summary()
    assert summary.calls["backend_replies"] > 10
    expected = ds.run(asked, engine="reference").replications[0].summary
    assert metrics_of(summary) == metrics_of(expected)


def test_a_run_until_its_end_has_what_is_due_at_its_end() -> None:
    asked = scenario()
    env, other = simpy.Environment(), simpy.Environment()
    stopped, whole = ds.Server(env, asked), ds.Server(other, asked)
    env.run(until=20_000_000)
    other.run()
    assert stopped.outcome().same_as(whole.outcome())


@pytest.mark.parametrize(("unit", "per_s"), [("us", 1e6), ("ms", 1e3), ("s", 1.0)])
def test_another_unit_is_another_name_for_the_same_times(unit: str, per_s: float) -> None:
    env, other = simpy.Environment(initial_time=3.5), simpy.Environment()
    server, exact = ds.Server(env, scenario(), unit=unit), ds.Server(other, scenario())
    env.run()
    other.run()
    assert env.now == pytest.approx(3.5 + 0.02 * per_s)
    assert server.outcome().same_as(exact.outcome())


def test_a_request_yields_its_reply() -> None:
    env = simpy.Environment(initial_time=1_000)
    server = quiet(env)

    def client() -> Process:
        yield env.timeout(500)
        reply = yield server.request(size=100, reply_size=2_000)
        return reply

    reply = after(env, env.process(client()))
    assert (reply.size, reply.data, reply.asked) == (2_000, None, 1_500)
    assert reply.received == env.now == 1_500 + reply.latency_ns
    assert reply.latency_ns > 4 * 10_000  # twice there and back
    env.run()
    outcome = server.outcome()
    assert outcome.intended_ns.tolist() == [500]
    assert outcome.done_ns.tolist() == [500 + reply.latency_ns]
    assert server.summary().verdict is not None


def test_requests_of_one_connection_share_its_handshake() -> None:
    env = simpy.Environment()
    server = quiet(env)
    latencies = []

    def client() -> Process:
        connection = yield server.connect()
        assert connection.is_open
        for _ in range(3):
            reply = yield connection.request()
            latencies.append(reply.latency_ns)
        last = yield connection.request(last=True)
        assert last.latency_ns == latencies[-1]
        assert not connection.is_open

    env.process(client())
    env.run()
    assert latencies[0] > latencies[1] == latencies[2] > 20_000  # it is accepted once
    outcome = server.outcome()
    assert outcome.status.tolist() == [Status.REPLIED]
    assert (outcome.reply_ns > 0).sum() == 4


@pytest.mark.parametrize("close", ["reset", "fin", "half-close"])
def test_a_closed_connection_is_closed_at_the_server(close: str) -> None:
    env = simpy.Environment()
    server = quiet(env, scenario(load={"close": close}))

    def client() -> Process:
        connection = yield server.connect()
        yield connection.request()
        connection.close()
        connection.close()  # again does nothing
        with pytest.raises(ds.UserError, match="must not be on a connection that its process has"):
            connection.request()

    env.process(client())
    env.run()
    assert server.world.counts[Count.CLOSES] == 1
    assert server.world.counts[Count.CONNECTIONS_OPEN] == 0


def test_a_request_that_takes_too_long_times_out() -> None:
    env = simpy.Environment()
    error = failure(env, quiet(env).request(timeout=25_000))
    assert isinstance(error, ds.RequestTimeoutError)
    assert isinstance(error, TimeoutError)
    assert env.now == 25_000
    assert str(error) == "request: the client gave up, 25 us after it began"


def sleeps(env: simpy.Environment, time_ns: int) -> Callable[[ds.Request], Process]:
    """Return work that takes so long."""

    def work(_: ds.Request) -> Process:
        yield env.timeout(time_ns)

    return work


def test_the_time_out_of_the_scenario_is_that_of_its_processes() -> None:
    env = simpy.Environment()
    server = quiet(env, scenario(load={"timeout": "1 ms"}), work=sleeps(env, 2_000_000))
    assert isinstance(failure(env, server.request()), ds.RequestTimeoutError)
    assert env.now == 1_000_000


def test_a_full_backlog_refuses() -> None:
    env = simpy.Environment()
    asked = scenario(server={"backlog": 1, "backlog_full": "refuse"})
    server = quiet(env, asked, work=sleeps(env, 10_000_000))
    server.request()
    env.run(until=1_000_000)  # the loop sleeps, and accepts nobody
    requests = []
    for _ in range(6):
        requests.append(server.request())
        requests[-1].defused = True
        env.run(until=env.now + 100_000)
    refused = [each for each in requests if each.triggered]
    assert len(refused) == 6 - 2  # Linux queues one more than the backlog
    assert all(isinstance(each.value, ds.RequestRefusedError) for each in refused)


def test_a_server_that_closes_resets() -> None:
    env = simpy.Environment()
    server = quiet(env, scenario(server={"request_timeout": "1 ms", "timeout_check": "1 ms"}))

    def client() -> Process:
        connection = yield server.connect()
        yield env.timeout(5_000_000)
        assert not connection.is_open
        yield connection.request()

    with pytest.raises(ds.RequestResetError):
        after(env, env.process(client()))


def test_clients_without_descriptors_cannot_connect() -> None:
    env = simpy.Environment()
    server = quiet(env, scenario(load={"descriptors": 2}))

    def client() -> Process:
        yield server.connect()
        yield server.connect()
        with pytest.raises(ds.ClientExhaustedError, match=r"load\.descriptors"):
            yield server.connect()
        return True

    assert after(env, env.process(client()))


def test_a_failure_that_nobody_waits_for_ends_the_simulation() -> None:
    env = simpy.Environment()
    quiet(env).request(timeout=10)
    with pytest.raises(ds.RequestTimeoutError):
        env.run()


def test_what_is_cancelled_never_comes() -> None:
    env = simpy.Environment()
    server = quiet(env)

    def client() -> Process:
        request = server.request()
        found = yield request | env.timeout(15_000)
        assert request not in found
        request.cancel()

    env.process(client())
    env.run()
    assert server.outcome().status.tolist() == [Status.TIMEOUT]


def test_a_pool_of_two_connections_is_waited_for() -> None:
    env = simpy.Environment()
    pool = simpy.Resource(env, capacity=2)

    def work(_: ds.Request) -> Process:
        with pool.request() as turn:
            yield turn
            yield env.timeout(1_000_000)

    server = quiet(env, scenario("blocking", server={"workers": 8}), work=work)
    replies = [server.request() for _ in range(6)]
    env.run(until=env.all_of(replies))
    latencies = sorted(latency_ms(each) for each in replies)
    assert latencies == [1, 1, 2, 2, 3, 3]


def test_a_loop_that_waits_serves_nobody_meanwhile() -> None:
    env = simpy.Environment()
    server = quiet(env, work=sleeps(env, 1_000_000))
    replies = [server.request() for _ in range(3)]
    env.run(until=env.all_of(replies))
    assert [latency_ms(each) for each in replies] == [1, 2, 3]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_work_is_done_for_each_request_of_every_mechanism(mechanism: str) -> None:
    env = simpy.Environment()
    seen = []

    def work(request: ds.Request) -> Process:
        yield env.timeout(700)
        request.reply_size = 5_000
        request.reply_data = request.data * 2
        seen.append(request.size)

    workers = 3 if mechanism == "blocking" else 1  # a thread for each connection
    server = quiet(env, scenario(mechanism, server={"workers": workers}), work=work)

    def client(number: int) -> Process:
        connection = yield server.connect()
        for size in (64, 65):
            reply = yield connection.request(size=size, data=number)
            assert (reply.size, reply.data) == (5_000, 2 * number)
        return True

    clients = [env.process(client(number)) for number in range(3)]
    env.run(until=env.all_of(clients))
    assert sorted(seen) == [64, 64, 64, 65, 65, 65]


def test_a_proxy_halves_the_load_of_two_servers_behind_it() -> None:
    env = simpy.Environment()
    behind = [quiet(env), quiet(env)]
    turns = iter(range(10**6))

    def forward(request: ds.Request) -> Process:
        reply = yield behind[next(turns) % 2].request(size=request.size)
        request.reply_size = reply.size

    front = ds.Server(env, scenario("blocking", server={"workers": 64}), work=forward)
    env.run(until=20_000_000)
    n_front = int((front.outcome().status == Status.REPLIED).sum())
    n_behind = [int((each.outcome().status == Status.REPLIED).sum()) for each in behind]
    assert abs(n_behind[0] - n_behind[1]) <= 1
    assert 0 <= sum(n_behind) - n_front <= 2
    alone = ds.run(scenario("blocking", server={"workers": 64}), engine="reference")
    more_ns = front.summary().latency_ns.p50 - alone.replications[0].summary.latency_ns.p50
    assert more_ns > behind[0].summary().latency_ns.p50  # a request behind, and a sleep


def test_servers_come_behind_all_else_at_a_nanosecond_in_the_order_of_their_making() -> None:
    env = simpy.Environment()
    first, second = quiet(env), quiet(env)
    order = []

    def ask(name: str, server: ds.Server) -> Process:
        reply = yield server.request()
        order.append((env.now, name))
        return reply.received

    late, early = env.process(ask("second", second)), env.process(ask("first", first))
    at_ns = after(env, late)
    env.run(until=early)
    assert order == [(at_ns, "first"), (at_ns, "second")]
    other = simpy.Environment()
    again = quiet(other)

    def watch() -> Process:
        reply = again.request()
        yield other.timeout(at_ns)
        assert not reply.triggered  # it is due at this nanosecond, and comes behind
        yield other.timeout(0)
        assert not reply.triggered
        yield reply
        assert other.now == at_ns

    other.run(until=other.process(watch()))


def test_time_never_runs_ahead_of_the_environment() -> None:
    env = simpy.Environment()
    server = ds.Server(env, scenario())
    before_ns = 0
    for _ in range(500):
        due_ns = env.peek()
        env.step()
        assert env.now == due_ns >= before_ns
        assert server.world.now_ns <= env.now
        before_ns = int(env.now)


def test_an_environment_that_keeps_real_time_keeps_it() -> None:
    env = RealtimeEnvironment(factor=1e-3, strict=False)  # a simulated second in a millisecond
    server = quiet(env, unit="s")
    reply = after(env, server.request())
    assert env.now == pytest.approx(reply.latency_ns / 1e9)


def test_what_is_drawn_does_not_depend_on_visitors() -> None:
    asked = scenario()
    env = simpy.Environment()
    server = ds.Server(env, asked)

    def client() -> Process:
        while True:
            yield server.request()
            yield env.timeout(700_000)

    env.process(client())
    env.run(until=20_000_000)
    intended = set(server.outcome().intended_ns.tolist())
    other = simpy.Environment()
    alone = ds.Server(other, asked)
    other.run()
    assert set(alone.outcome().intended_ns.tolist()) < intended


REFUSED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda env: quiet(cast(Any, "env")), TypeError, "env: must be a simpy.Environment, got"),
    (
        lambda env: ds.Server(env, cast(Any, "poll.toml")),
        TypeError,
        "scenario: must be a Scenario, got",
    ),
    (
        lambda env: ds.Server(env, scenario(run={"engine": "fast"})),
        ds.UserError,
        'run.engine: must be "reference" or "auto" in a SimPy environment, got "fast"',
    ),
    (
        lambda env: quiet(
            env, ds.Scenario.of(**scenario().to_dict(), clients=[{"share": 0.5}] * 2)
        ),
        ds.UserError,
        "clients: must be absent, as processes are the clients, got classes",
    ),
    (
        lambda env: ds.Server(env, scenario(), unit="seconds"),
        ds.UserError,
        'unit: must be one of ns, us, ms, s, got "seconds"',
    ),
    (
        lambda env: [quiet(env), quiet(env, unit="s")],
        ds.UserError,
        'unit: must be "ns" as for the other servers of this environment, got "s"',
    ),
    (
        lambda env: quiet(simpy.Environment(0.25)),
        ds.UserError,
        "env.now: must be a whole number of ns, got 0.25: round() random times, or give",
    ),
    (
        lambda env: quiet(simpy.Environment(1.7e9), unit="s"),
        ds.UserError,
        "env.now: must be small enough for floating point to resolve nanoseconds",
    ),
    (
        lambda env: quiet(env, connections=-1),
        ds.UserError,
        "connections: must be a whole number from 0 to 1000000, got -1",
    ),
    (
        lambda env: quiet(env, connections=0).request(),
        ds.UserError,
        "connections: must be at least as many as processes have open at once, got 0",
    ),
    (lambda env: quiet(env, seed=-1), ds.UserError, "seed: must be a whole number of at least 0"),
    (
        lambda env: quiet(env, work=cast(Any, 3)),
        TypeError,
        "work: must be a generator function, got 3",
    ),
    (
        lambda env: quiet(env).request(size=0),
        ds.UserError,
        "size: must be a whole number of bytes from 1 to 65536, got 0",
    ),
    (
        lambda env: quiet(env).request(reply_size=63),
        ds.UserError,
        "reply_size: must be a whole number of bytes from 64 to 1099511627776, got 63",
    ),
    (
        lambda env: quiet(env).request(size=65_537),
        ds.UserError,
        "size: must be a whole number of bytes from 1 to 65536, got 65537",
    ),
    (
        lambda env: quiet(env).request(size=cast(Any, 1.5)),
        ds.UserError,
        "size: must be a whole number of bytes from 1 to 65536, got 1.5",
    ),
    (
        lambda env: quiet(env).request(timeout=0),
        ds.UserError,
        "timeout: must be a number of ns above 0, got 0",
    ),
    (
        lambda env: quiet(env).request(timeout=0.5),
        ds.UserError,
        "timeout: must be a whole number of ns, got 0.5",
    ),
]


@pytest.mark.parametrize(("ask", "kind", "words"), REFUSED)
def test_what_breaks_a_rule_is_refused(ask: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as refusal:
        ask(simpy.Environment())
    assert str(refusal.value).startswith(words)


def test_a_request_after_the_end_is_refused() -> None:
    env = simpy.Environment()
    server = quiet(env)
    env.run(until=30_000_000)
    with pytest.raises(ds.UserError) as refusal:
        server.connect()
    assert str(refusal.value) == (
        "connect: must come before the end of the server's run (run.duration, 20 ms), got 30 ms"
    )


def test_a_second_request_on_a_connection_waits_for_the_reply_to_the_first() -> None:
    env = simpy.Environment()
    server = quiet(env)

    def client() -> Process:
        connection = yield server.connect()
        connection.request()
        with pytest.raises(ds.UserError, match="must wait for the reply to the one before"):
            connection.request()
        return True

    assert after(env, env.process(client()))


def test_a_process_between_two_nanoseconds_is_refused() -> None:
    env = simpy.Environment()
    server = quiet(env)

    def client() -> Process:
        yield env.timeout(0.5)
        server.request()

    env.process(client())
    with pytest.raises(ds.UserError, match=r"env.now: must be a whole number of ns, got 0.5"):
        env.run()


def test_work_that_is_no_generator_is_refused() -> None:
    env = simpy.Environment()
    server = quiet(env, work=cast(Any, lambda request: 3))
    server.request()
    with pytest.raises(TypeError, match="work: must be a generator function"):
        env.run()


def test_a_server_with_room_for_two_takes_a_third_when_one_has_left() -> None:
    env = simpy.Environment()
    server = quiet(env, connections=2)

    def client() -> Process:
        first = yield server.connect()
        yield server.connect()
        with pytest.raises(ds.UserError, match="connections: must be at least as many"):
            server.connect()
        first.close()
        yield env.timeout(100_000)  # the server has to hear of it, and close, too
        yield server.connect()
        return True

    assert after(env, env.process(client()))


def test_processes_of_ones_own_join_a_run_on_the_reference_engine() -> None:
    times_ns: list[int] = []

    def extend(env: simpy.Environment, _: Any) -> None:
        def ticks() -> Process:
            while True:
                yield env.timeout(5_000_000)
                times_ns.append(int(env.now))

        env.process(ticks())

    asked = scenario(run={"replications": 2})
    extended = ds.run(asked, extend=extend)
    assert times_ns == [5_000_000, 10_000_000, 15_000_000, 20_000_000] * 2
    plain = ds.run(asked, engine="reference")
    assert [metrics_of(each.summary) for each in extended.replications] == [
        metrics_of(each.summary) for each in plain.replications
    ]


def test_extend_needs_the_reference_engine() -> None:
    with pytest.raises(ds.UserError, match='engine: must be "reference" or "auto" with extend'):
        ds.run(scenario(), engine="fast", extend=lambda env, world: None)
    with pytest.raises(ds.UserError, match=r'^run\.engine: must be "reference" or "auto" with'):
        ds.run(scenario(run={"engine": "fast"}), extend=lambda env, world: None)


@pytest.mark.parametrize("option", ["executor", "progress"])
def test_what_extend_cannot_use_is_refused(option: str) -> None:
    with pytest.raises(ds.UserError, match=f"^{option}: must be absent with extend"):
        ds.run(scenario(), extend=lambda env, world: None, **{option: cast(Any, print)})
