"""Bruguera, "Benchmarking Input/Output Multiplexing Facilities of the Linux Kernel", 2019.

A thesis at the Universitat de Barcelona. A client on a virtual machine, with one busy-waiting
thread or a thread for each connection, sends requests to a server that replies after a requested
delay.
"""

from __future__ import annotations

from collections.abc import Mapping

from .paper import LESS, LINEAR, RATE, Claim, Condition, Hypothesis, Question, Values, described
from .quantities import Comparison, Quantity, straight, within

SELECT, POLL, EPOLL, THREADS = "select", "poll", "epoll", "threads"
_METHODS: Mapping[str, Values] = {
    SELECT: {"server.mechanism": "select", "server.fd_setsize": 1024},
    POLL: {"server.mechanism": "poll"},
    EPOLL: {"server.mechanism": "epoll_level"},
    THREADS: {"server.mechanism": "blocking", "server.busy": None},
}
_BUSY = (SELECT, POLL, EPOLL)
_BLOCKING = "epoll, blocking"
_AT = (100.0, 250.0, 500.0, 750.0, 1000.0)
_FEW = (100.0, 500.0, 1000.0)
_ACCEPT_MS = 0.1
"""Time of an accept on the remote server (B19-14)."""


def fresh(method: str) -> str:
    """Return the name of *method* with a connection for each request."""
    return f"{method}, no reuse"


def _reused(ms: float, seconds: float) -> Values:
    """Return the keys of reused connections, with requests for twice the length of a run."""
    return {"load.service_time": f"{ms:g} ms", "load.requests": max(8, round(2_000 * seconds / ms))}


def _delay(ms: float, seconds: float, few_seconds: float, warm_up_s: float) -> Condition:
    again = _reused(ms, seconds)
    new = {"load.service_time": f"{ms + _ACCEPT_MS:g} ms", "load.requests": 1}
    return Condition(
        name=f"{ms:g} ms",
        scenario="bruguera_2019_client",
        servers={name: {**keys, **again} for name, keys in _METHODS.items()}
        | {fresh(name): {**keys, **new} for name, keys in _METHODS.items()},
        axis="load.users",
        at=_AT,
        few_at=_FEW,
        seconds=seconds,
        few_seconds=few_seconds,
        warm_up_s=warm_up_s,
    )


LONG = _delay(500, 21, 6, 1)
MIDDLE = _delay(50, 4.5, 1.1, 0.3)
SHORT = _delay(5, 1.2, 0.5, 0.25)
DELAYS = (LONG, MIDDLE, SHORT)


def _thousands(ms: float) -> Condition:
    return Condition(
        name=f"{ms:g} ms, thousands",
        scenario="bruguera_2019_client",
        servers={name: {**_METHODS[name], **_reused(ms, 0.5)} for name in (POLL, EPOLL)},
        axis="load.users",
        at=(10_000.0, 20_000.0),
        seconds=4,
        few_seconds=2,
        warm_up_s=1,
    )


THOUSANDS, SPARSE = _thousands(5), _thousands(500)
SLEEPING = Condition(
    name="50 ms, busy or not",
    scenario="bruguera_2019_client",
    servers={
        EPOLL: {**_METHODS[EPOLL], **_reused(50, 4.5)},
        _BLOCKING: {**_METHODS[EPOLL], **_reused(50, 4.5), "server.busy": False},
    },
    axis="load.users",
    at=(100.0, 1000.0),
    seconds=4.5,
    few_seconds=1.1,
    warm_up_s=0.3,
)


def _rpm(condition: Condition, server: str) -> Quantity:
    """Return replies per minute: n users get one each in the mean time between replies.

    Counts over seconds would be whole rounds of all users, and differ by one or none.
    """
    response = condition.curve("request_response_ms", server)
    replies = 60_000 * response.axis / response
    return replies.named(f"replies per minute of {server} ({condition.name})")


def _cpu_ms(condition: Condition, server: str) -> Quantity:
    """Return the CPU time of the process for a reply."""
    spent = 60_000 * condition.curve("process_cpu", server) / _rpm(condition, server)
    return spent.named(f"ms of CPU per reply of {server} ({condition.name})")


def _spread(condition: Condition) -> Quantity:
    """Return the largest ratio of the replies of threads to those of select."""
    return (_rpm(condition, THREADS) / _rpm(condition, SELECT)).max()


def _reply_claims() -> tuple[Claim, ...]:
    def reuse_pays(condition: Condition) -> tuple[Comparison, ...]:
        return tuple(_rpm(condition, name) > _rpm(condition, fresh(name)) for name in _METHODS)

    def low(condition: Condition, server: str) -> Quantity:
        return _rpm(condition, server).first()

    return (
        Claim("B19-01", "V", "E500", "RPM over connections", "linear for every method",
              tuple(straight(LONG.curve("reply_rate", s)) >= LINEAR for s in LONG.servers),
              "R² of 0.98", "§4"),
        Claim("B19-02", "V", "E500", "RPM", "all methods are similar, whether reused or not",
              tuple(x for of in (str, fresh) for name in (SELECT, POLL, THREADS)
                    for x in within(_rpm(LONG, of(name)), _rpm(LONG, of(EPOLL)), RATE)),
              "10%", "§4"),
        Claim("B19-03", "V", "E50", "RPM", "some differences start to appear",
              (_spread(MIDDLE) > _spread(LONG),), "more than at 500 ms", "§4"),
        Claim("B19-04", "V", "E50", "RPM", "more where connections are reused",
              reuse_pays(MIDDLE), "none", "§4"),
        Claim("B19-06", "V", "all", "RPM", "the lower the delay, the higher",
              tuple(_rpm(b, s) >= (1 / LESS) * _rpm(a, s)
                    for a, b in ((LONG, MIDDLE), (MIDDLE, SHORT)) for s in LONG.servers),
              "5%", "§4"),
        Claim("B19-07", "V", "E5, few connections", "RPM", "methods are alike, as at other delays",
              tuple(x for of in (str, fresh) for name in (SELECT, POLL, THREADS)
                    for x in within(low(SHORT, of(name)), low(SHORT, of(EPOLL)), RATE)),
              "10%", "§4"),
        Claim("B19-09", "V", "E6", "RPM", "epoll gets more than poll with 10,000 and 20,000",
              (_rpm(THOUSANDS, EPOLL) > _rpm(THOUSANDS, POLL),), "none", "§4, figure 6"),
        Claim("B19-13", "V", "all", "RPM", "more where connections are reused, everywhere",
              tuple(x for condition in DELAYS for x in reuse_pays(condition)), "none", "§4"),
    )  # fmt: skip


def _cpu_claims() -> tuple[Claim, ...]:
    def high(condition: Condition, server: str) -> Quantity:
        return _cpu_ms(condition, server).last()

    return (
        Claim("B19-15", "V", "E500, E50", "CPU time per reply", "select's is often the highest",
              tuple(_cpu_ms(condition, SELECT).mean() >= _cpu_ms(condition, s).mean()
                    for condition in (LONG, MIDDLE) for s in (POLL, EPOLL, THREADS)),
              "in the mean over connections", "§4.2"),
        Claim("B19-16", "V", "all", "CPU time per reply", "that of threads is the lowest",
              tuple(_cpu_ms(condition, of(THREADS)) <= LESS * _cpu_ms(condition, of(s))
                    for condition in DELAYS for of in (str, fresh) for s in _BUSY),
              "5%", "§4.2"),
        Claim("B19-17", "V", "all", "CPU time per reply", "more where connections are not reused",
              tuple(_cpu_ms(condition, fresh(s)) > _cpu_ms(condition, s)
                    for condition in DELAYS for s in _METHODS),
              "none", "§4.2"),
        Claim("B19-18", "V", "many connections, reused", "CPU time per reply",
              "epoll's is less than those of poll and select",
              (*(high(condition, EPOLL) < high(condition, s)
                 for condition in DELAYS for s in (SELECT, POLL)),
               _cpu_ms(THOUSANDS, EPOLL) < _cpu_ms(THOUSANDS, POLL)),
              "none", "§4.2"),
        Claim("B19-21", "V", "E500, E50", "CPU time per reply",
              "select, poll and epoll are similar otherwise",
              tuple(x for condition in (LONG, MIDDLE) for s in (SELECT, POLL)
                    for x in within(_cpu_ms(condition, s), _cpu_ms(condition, EPOLL), RATE)),
              "10%", "§4.2"),
        Claim("B19-26", "V", "busy or blocking", "response time, CPU",
              "a busy-waiting thread gets replies earlier and takes more CPU",
              (SLEEPING.curve("request_response_ms", EPOLL)
               < SLEEPING.curve("request_response_ms", _BLOCKING),
               LESS * SLEEPING.curve("process_cpu", EPOLL)
               >= SLEEPING.curve("process_cpu", _BLOCKING)),
              "5% of the CPU", "§2.2"),
    )  # fmt: skip


def _more(condition: Condition) -> Comparison:
    return _rpm(condition, EPOLL) > _rpm(condition, POLL)


QUESTION = Question(
    name="figure 6",
    asks="Where does epoll get more replies than poll with thousands of connections? The paper "
    "does not state the delay.",
    conditions=(SPARSE,),
    hypotheses=(
        Hypothesis("dense", "where the client is full, and most connections are ready (5 ms)",
                   (_more(THOUSANDS),)),
        Hypothesis("sparse", "where few of them are ready at a time (500 ms)", (_more(SPARSE),)),
    ),
)  # fmt: skip

PAPER = described(
    "bruguera_2019",
    conditions=(*DELAYS, THOUSANDS, SLEEPING),
    claims=(*_reply_claims(), *_cpu_claims()),
    questions=(QUESTION,),
)
