"""A scenario file is understood whole, or one sentence says why not."""

from __future__ import annotations

import pickle
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.served import served

from dispatchsim.scenario.errors import ScenarioError, nearest
from dispatchsim.scenario.examples import example_scenarios, first_sentence
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario, scenario_schema
from dispatchsim.sim.state.family_settings import Threads
from dispatchsim.sim.state.program_settings import Wakes

MINIMAL: dict[str, Any] = {
    "server": {"mechanism": "poll"},
    "load": {"loop": "open", "rate": "2000/s"},
}


def changed(section: str, **values: Any) -> dict[str, Any]:
    content = {name: dict(keys) for name, keys in MINIMAL.items()}
    content[section] = {**content.get(section, {}), **values}
    return content


WRONG = [
    ({"load": MINIMAL["load"]}, "the section [server] is missing"),
    ({**MINIMAL, "idel": {}}, 'idel: unknown key (did you mean "idle"?)'),
    ({**MINIMAL, "idle": 5}, "idle: must be a section, [idle] and its keys, got 5"),
    (changed("server", backlog=0), "server.backlog: must be at least 1, got 0"),
    (changed("server", backlog=70_000), "server.backlog: must be at most 65535, got 70000"),
    (
        changed("server", backlog="5"),
        'server.backlog: must be a whole number (4, 20000 or "20k"), got "5"',
    ),
    (changed("server", backlog="1.2345k"), "server.backlog: must be a whole number (4, 20000 or"),
    (changed("server", backlog="70k"), "server.backlog: must be at most 65535, got 70000"),
    (changed("load", retry_jitter="101%"), "load.retry_jitter: must be at most 1, got 1.01"),
    (
        changed("network", up="10 GBps"),
        'network.up: must be either "80 Gbit/s" (bytes) or "10 Gbit/s" (bits), got "10 GBps"',
    ),
    (changed("server", backlog=True), "server.backlog: must be a whole number, got true"),
    (
        changed("server", concurrency_tolerance=0.5),
        "server.concurrency_tolerance: must be 0 or at least 1, as no latency is below the "
        "minimum,",
    ),
    (
        changed("server", mechanism="io_uring", accept_limit=3),
        'server.accept_limit: must be 0 where server.mechanism is "io_uring", whose program has no '
        "event loop, got 3",
    ),
    (changed("server", backlg=5), 'server.backlg: unknown key (did you mean "backlog"?)'),
    (
        changed("server", mechanism="pol"),
        '(did you mean "poll"?), got "pol"',
    ),
    (changed("server", mechanism="epol"), '(did you mean "epoll"?), got "epol"'),
    (changed("server", workers=0), "server.workers: must be at least 1, got 0"),
    (changed("server", workers=2000), "server.workers: must be at most 1024, got 2000"),
    (
        changed("server", share="all"),
        'server.share: must be "nothing", "accept queue", "ready list" or "handed over", got "all"',
    ),
    (changed("server", wake="two"), 'server.wake: must be "usual", "all" or "one", got "two"'),
    (
        changed("server", share="ready list"),
        'server.share: must not be "ready list" where server.mechanism is "poll", whose workers '
        'share no ready list, got "ready list"',
    ),
    (
        changed(
            "server",
            mechanism="epoll_level",
            share="ready list",
            workers=2,
            read_after_accept=True,
        ),
        'server.read_after_accept: must be false where server.share is "ready list"',
    ),
    (
        {**changed("server", workers=100, descriptors=210), "idle": {"connections": 5}},
        "server.descriptors: must be at least 211 (5 open connections and the server's own)",
    ),
    (
        changed("server", mechanism="epoll_level", threads="on demand"),
        'server.threads: must be "pool" where server.mechanism is "epoll_level", whose workers '
        'all start before the run, got "on demand"',
    ),
    (
        changed("server", mechanism="epoll_level", pass_listener=True),
        'server.pass_listener: must be false where server.mechanism is "epoll_level", whose '
        "events are not signals, got true",
    ),
    (
        changed("server", mechanism="rt_signals", pass_listener=True, share="nothing"),
        'server.share: must be "accept queue" where server.pass_listener is true (the '
        'workers pass on one common listener), got "nothing"',
    ),
    (
        {
            **changed("server", mechanism="epoll_level", epoll_watches=10, workers=2),
            "idle": {"connections": 9},
        },
        "server.epoll_watches: must be at least 11 (9 idle connections, and a listener a set), "
        "or 0, got 10",
    ),
    (
        changed("server", mechanism="epoll_edge", epoll_instances=2, workers=4),
        "server.epoll_instances: must be 0 or at least 4 where server.workers is 4 "
        "(each worker creates a set, which fails with EMFILE otherwise), got 2",
    ),
    (
        changed("server", mechanism="epoll_ctlv", epoll_watches=10),
        'server.epoll_watches: must be 0 where server.mechanism is "epoll_ctlv"',
    ),
    (
        changed("server", mechanism="blocking", threads="fibres"),
        'server.threads: must be "pool", "on demand" or "processes", got "fibres"',
    ),
    (
        changed("server", mechanism="blocking", busy=True),
        'server.busy: must be false where server.mechanism is "blocking", whose threads block in '
        "their calls, got true",
    ),
    (
        changed("server", mechanism="blocking", share="nothing"),
        'server.share: must be "accept queue" where server.mechanism is "blocking"',
    ),
    (
        changed("server", mechanism="blocking", limiter_gain=0.3),
        'server.limiter_gain: must be 0 where server.mechanism is "blocking"',
    ),
    (
        changed("server", mechanism="blocking", workers=40_000),
        "server.workers: must be at most 32768, got 40000",
    ),
    (
        changed("server", mechanism="blocking", stack=2),
        'server.stack: must be a size such as "6 KiB"',
    ),
    (
        changed("server", mechanism="blocking", workers=2_000, address_space="3 GiB"),
        "server.workers: must be at most 1536, as more stacks exceed server.address_space, "
        "got 2000",
    ),
    (
        changed("server", mechanism="blocking", threads="on demand"),
        "server.workers: must be at least 2, got 1 (all stacks must fit server.address_space)",
    ),
    (
        {
            **changed(
                "server",
                mechanism="blocking",
                workers=9_000,
                threads="on demand",
                address_space="1 GiB",
            ),
            "idle": {"connections": 600},
        },
        "server.workers: must be at least 601, as each of the 600 open connections holds a thread, "
        "got 512 (all stacks must fit server.address_space)",
    ),
    (changed("machine", cpus=0), "machine.cpus: must be at least 1, got 0"),
    (changed("machine", cpu=2), 'machine.cpu: unknown key (did you mean "cpus"?)'),
    (
        changed("machine", interrupts="all"),
        'machine.interrupts: must be "one cpu" or "every cpu", got "all"',
    ),
    (
        changed("run", engine="simpy"),
        'run.engine: must be "auto", "fast" or "reference", got "simpy"',
    ),
    (changed("server", listener="middle"), 'must be "first" or "last", got "middle"'),
    (changed("server", read_after_accept="yes"), 'must be true or false, got "yes"'),
    (changed("load", rate=2000), 'load.rate: must be a rate such as "2000/s" (units: /h, /min'),
    (changed("load", rate="2 ms"), 'load.rate: must be a rate such as "2000/s"'),
    (changed("load", rate="-1/s"), 'load.rate: must not be negative, got "-1/s"'),
    (changed("load", rate="99999999/s"), "load.rate: must be at most 10000000/s"),
    (changed("load", rate="2/s"), "load.rate: must give at least 10 connections in a run of 2500"),
    (changed("load", users=4), 'load.users: must be absent where load.loop is "open"'),
    (changed("load", loop="closed"), 'load.rate: must be absent where load.loop is "closed"'),
    (changed("load", trace="t.trace"), "load.rate: must be absent where load.trace is given"),
    (changed("load", reply_size="6"), 'load.reply_size: must be a size such as "6 KiB"'),
    (changed("load", reply_size="8 B"), 'load.reply_size: must be at least 64 B, got "8 B"'),
    (changed("run", warm_up="3 s"), "run.warm_up: must be shorter than run.duration (2500 ms)"),
    (changed("run", duration="9 weeks"), 'must be a duration such as "50 ms" (units: ns, us'),
    (changed("run", duration="9 h"), 'run.duration: must be at most 1 h, got "9 h"'),
    (changed("run", seed=-1), "run.seed: must be at least 0, got -1"),
    (changed("idle", connections=-1), "idle.connections: must be at least 0, got -1"),
    (
        changed("idle", connections=2_000_000),
        "server.descriptors: must be at least 2000008 "
        "(2000000 open connections and the server's own), got 1048576",
    ),
    (
        {
            **changed("server", mechanism="select", fd_setsize=1024),
            "idle": {"connections": 1020},
        },
        "server.fd_setsize: must be at least 1028 (1020 open connections",
    ),
    (
        {"server": MINIMAL["server"], "load": {"loop": "open", "rate": "9000000/s"}},
        "load.rate: must give at most 5000000 connections in a run of 2500 ms, got 22500000",
    ),
    (changed("network", up="5 MB"), 'network.up: must be a bandwidth such as "1 Gbit/s"'),
    (changed("machine", profile=7), "machine.profile: must be a text in quotes, got 7"),
]


@pytest.mark.parametrize(("content", "rule"), WRONG)
def test_a_wrong_scenario_is_refused_in_one_sentence(content: dict[str, Any], rule: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.check(content, "x.toml")
    message = str(caught.value)
    assert message.startswith("x.toml: ")
    assert rule in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("epoll", "epoll_level"),
        ("threads", "blocking"),
        ("thread-per-connection", "blocking"),
        ("IO-uring", "io_uring"),
        ("/dev/poll", "dev_poll"),
        ("poll", "poll"),
    ],
)
def test_a_mechanism_may_be_called_as_people_do(called: str, name: str) -> None:
    scenario = Scenario.check(changed("server", mechanism=called), "x.toml")
    assert scenario.server.mechanism == scenario.to_dict()["server"]["mechanism"] == name
    assert scenario.alias == ("" if called == name else called)
    assert scenario.with_values(run={"seed": 2}).alias == scenario.alias
    assert scenario.with_values(server={"mechanism": "select"}).alias == ""
    again = scenario.with_values(server={"mechanism": "epoll"})
    assert (again.server.mechanism, again.alias) == ("epoll_level", "epoll")


def test_a_program_goes_with_another_name_of_its_mechanism() -> None:
    content = changed("server", program="userver_epoll_level", mechanism="epoll")
    assert Scenario.check(content, "x.toml").server.mechanism == "epoll_level"
    content = changed("server", program="userver_epoll_level", mechanism="epoll_et")
    with pytest.raises(ScenarioError, match=r'mechanism: must be "epoll_level" where server.prog'):
        Scenario.check(content, "x.toml")


def test_the_schema_lists_mechanisms_and_programs_for_editors() -> None:
    server = scenario_schema()["$defs"]["Server"]["properties"]
    assert {"poll", "epoll_level", "epoll", "threads"} <= set(server["mechanism"]["enum"])
    assert {"phhttpd", "thttpd"} <= set(server["program"]["enum"])
    schema = scenario_schema()
    assert valid(schema, changed("server", mechanism="epoll"), schema)
    assert valid(schema, changed("server", mechanism="thread-per-connection"), schema)
    assert not valid(schema, changed("server", mechanism="epol"), schema)


def test_all_mistakes_are_named_in_the_order_of_the_file() -> None:
    content = {
        "load": {"rate": 5, "uzers": 4, "loop": "open", "reply_size": "8K"},
        "server": {"mechansim": "poll", "backlog": 0},
        "fault": [{"kind": "stall", "at": "1 s"}, {"at": "1 s", "length": "1 s", "kind": "fire"}],
        "idel": {},
        "run": 7,
    }
    with pytest.raises(ScenarioError) as caught:
        Scenario.check(content, "x.toml")
    assert caught.value.mistakes == str(caught.value).splitlines()
    assert caught.value.mistakes == [
        'x.toml: load.rate: must be a rate such as "2000/s" (units: /h, /min, /s), got 5',
        'x.toml: load.uzers: unknown key (did you mean "users"?)',
        'x.toml: load.reply_size: must be either "8 kB" (powers of 1000) or "8 KiB" (powers of '
        '1024), got "8K"',
        'x.toml: server.mechansim: unknown key (did you mean "mechanism"?)',
        "x.toml: server.backlog: must be at least 1, got 0",
        "x.toml: fault 1.length: is missing",
        'x.toml: fault 2.kind: must be "stall", "link", "signals" or "stops reading", got "fire"',
        'x.toml: idel: unknown key (did you mean "idle"?)',
        "x.toml: run: must be a section, [run] and its keys, got 7",
    ]


def test_an_unknown_program_is_named_beside_what_else_is_wrong() -> None:
    content = {"server": {"program": "phhtpd", "backlog": 0}, "load": MINIMAL["load"]}
    with pytest.raises(ScenarioError) as caught:
        Scenario.check(content, "x")
    program, backlog = caught.value.mistakes
    assert program.endswith('(did you mean "phhttpd"?), got "phhtpd"')
    assert backlog == "x: server.backlog: must be at least 1, got 0"


def test_a_rule_between_keys_is_named_where_the_keys_are_right() -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.check({**changed("load", users=3), "run": {"warm_up": "9 s", "seed": 1}}, "x")
    assert caught.value.mistakes == [
        'x: load.users: must be absent where load.loop is "open"',
        "x: run.warm_up: must be shorter than run.duration (2500 ms), got 9 s",
    ]
    with pytest.raises(ScenarioError) as caught:
        Scenario.check({**changed("load", users=0), "run": {"warm_up": "9 s", "seed": -1}}, "x")
    assert caught.value.mistakes == [
        "x: load.users: must be at least 1, got 0",
        "x: run.seed: must be at least 0, got -1",
    ]


def test_mistakes_survive_the_way_between_processes() -> None:
    error = ScenarioError("x: a", "x: b")
    assert pickle.loads(pickle.dumps(error)).mistakes == ["x: a", "x: b"]
    assert (str(ScenarioError("x: a")), str(ScenarioError())) == ("x: a", "")


def test_one_worker_may_name_what_several_would_share() -> None:
    server = {"mechanism": "epoll_level", "share": "ready list", "read_after_accept": True}
    assert Scenario.of(server=server, load=MINIMAL["load"]).server.workers == 1


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("epol", ["select", "poll", "epoll_level"], ' (did you mean "epoll_level"?)'),
        ("pol", ["select", "poll", "epoll_level"], ' (did you mean "poll"?)'),
        ("pole", ["select", "poll", "epoll_level"], ' (did you mean "poll"?)'),
        ("b_10k_idel", ["ab_10k_idle", "b_10k_idle"], ' (did you mean "b_10k_idle"?)'),
        ("smoke_signals", ["select", "poll"], ""),
        ("e", ["epoll_level"], ""),
        ("x", [], ""),
    ],
)
def test_a_near_miss_is_understood(name: str, known: list[str], hint: str) -> None:
    assert nearest(name, known) == hint


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("[server\n")
    with pytest.raises(ScenarioError, match=r"x\.toml: is not TOML \("):
        Scenario.read(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ScenarioError, match=r"x\.toml: must be a text file in UTF-8"):
        Scenario.read(path)
    with pytest.raises(ScenarioError, match=r"cannot be read \(no such file"):
        Scenario.read(tmp_path / "absent.toml")


def test_a_trace_lies_beside_its_scenario(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('[server]\nmechanism = "poll"\n[load]\nloop = "open"\ntrace = "a.trace"\n')
    assert Scenario.read(path).load.trace == str(tmp_path / "a.trace")


def test_a_profile_lies_beside_its_scenario_or_is_a_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    text = '[server]\nmechanism = "poll"\n[load]\nloop = "open"\nrate = "2000/s"\n[machine]\n'
    path.write_text(text + 'profile = "mine.toml"')
    assert Scenario.read(path).machine.profile == str(tmp_path / "mine.toml")
    path.write_text(text + 'profile = "epyc"')
    assert Scenario.read(path).machine.profile == "epyc"


def test_a_scenario_without_chance_has_one_replication() -> None:
    closed = {"loop": "closed", "users": 4}
    assert Scenario.of(server=MINIMAL["server"], load=closed).seeds == (1,)
    thinking = {**closed, "think_time": "1 ms"}
    assert Scenario.of(server=MINIMAL["server"], load=thinking).seeds == (1, 2, 3, 4, 5)


@pytest.mark.parametrize("path", example_scenarios().values(), ids=lambda path: path.stem)
def test_an_example_is_a_scenario_and_says_what_it_shows(path: Path) -> None:
    scenario = Scenario.read(path)
    assert Scenario.check(scenario.to_dict(), "again").to_dict() == scenario.to_dict()
    assert len(first_sentence(path)) > 20


KEYS = sorted(
    {key for section in scenario_schema()["$defs"].values() for key in section["properties"]}
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["open", "closed", "poll", "select", "50 ms", "0 s", "2000/s", "64 B", "1 h"])
    | st.lists(st.integers(), max_size=2)
)
SECTIONS = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), VALUES, max_size=6)


@given(
    st.dictionaries(
        st.sampled_from(list(Scenario.model_fields)) | st.text(max_size=5), SECTIONS | VALUES
    )
)
def test_anything_is_a_scenario_or_a_scenario_error(content: dict[str, Any]) -> None:
    try:
        scenario = Scenario.check({**MINIMAL, **content}, "x.toml")
    except ScenarioError as error:
        mistakes = error.mistakes
    else:
        again = Scenario.check(scenario.to_dict(), "x.toml")
        assert again.to_dict() == scenario.to_dict()
        mistakes = ["x.toml: none"]
    assert mistakes
    for each in mistakes:
        assert each.startswith("x.toml: ")
        assert "\n" not in each


@given(text=st.text(max_size=200))
def test_any_text_is_a_scenario_or_a_scenario_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(ScenarioError):  # no short text happens to be one
        Scenario.read(path)


def valid(schema: dict[str, Any], value: object, root: dict[str, Any]) -> bool:
    """Return whether *value* keeps the rules of the part of JSON Schema that pydantic writes."""
    if "$ref" in schema:
        return valid(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root)
    if schema.get("type") == "array":
        items = value if isinstance(value, list) else [None]
        return all(valid(schema["items"], item, root) for item in items)
    kinds = {"object": dict, "string": str, "integer": int, "boolean": bool, "number": int | float}
    named = schema.get("type", "object")
    if not isinstance(
        value, tuple(kinds[n] for n in ([named] if isinstance(named, str) else named))
    ):
        return False
    if isinstance(value, dict):
        known = schema["properties"]
        return set(schema.get("required", ())) <= set(value) <= set(known) and all(
            valid(known[key], item, root) for key, item in value.items()
        )
    if isinstance(value, str):
        fits = value in schema.get("enum", [value])
        return fits and re.search(schema.get("pattern", ""), value) is not None
    assert isinstance(value, int | float)
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    return bool(low <= value <= high)


def test_what_the_pages_add_to_a_scenario_fits_one() -> None:
    pages = Path(__file__).parents[2] / "docs" / "how-to"
    workers, trouble = (
        re.findall(r"```toml\n(.*?)```", (pages / page).read_text(), re.S)[0]
        for page in ("several-cpus.md", "model-overload-and-faults.md")
    )
    found = Scenario.of(load=MINIMAL["load"], **tomllib.loads(workers))
    assert (found.server.workers, found.machine.cpus) == (4, 4)
    found = Scenario.of(server=MINIMAL["server"], load=MINIMAL["load"], **tomllib.loads(trouble))
    assert (len(found.fault), len(found.path)) == (1, 2)


def test_the_schema_allows_the_examples_and_refuses_the_wrong() -> None:
    schema = scenario_schema()
    for path in example_scenarios().values():
        assert valid(schema, tomllib.loads(path.read_text()), schema)
    assert not valid(schema, changed("server", backlog=0), schema)
    assert not valid(schema, changed("load", rate="2000 ms"), schema)
    assert not valid(schema, changed("server", backlg=1), schema)


def test_the_schema_allows_what_people_type() -> None:
    schema = scenario_schema()
    for content in (
        changed("server", workers="1k", descriptors=20_000),
        changed("load", rate="20k/s", reply_size="8 KB", retries=1, retry_jitter="50%"),
        changed("network", up="10 Gb/s", delay="50 µsec"),
    ):
        assert valid(schema, content, schema)
        Scenario.check(content, "x.toml")
    assert not valid(schema, changed("server", workers="1x"), schema)
    assert not valid(schema, changed("network", up="10 GBps"), schema)


def test_counts_shares_and_rates_are_written_with_their_numbers() -> None:
    scenario = Scenario.of(
        server={"mechanism": "poll", "workers": "1k"},
        load={"loop": "open", "rate": "20k/s", "retries": 1, "retry_jitter": "50%"},
        idle={"connections": "1.5k"},
        path=[{"share": "25%", "loss": "0.1%"}, {"share": 0.75}],
    )
    content = scenario.to_dict()
    assert content["server"]["workers"] == 1_000
    assert content["load"]["rate"] == "20000/s"
    assert content["load"]["retry_jitter"] == 0.5
    assert content["idle"]["connections"] == 1_500
    assert content["path"] == ({"share": 0.25, "loss": 0.001}, {"share": 0.75})


def test_the_schema_states_defaults_as_a_file_would() -> None:
    defs = scenario_schema()["$defs"]
    assert defs["Run"]["properties"]["warm_up"]["default"] == "500 ms"
    timeout = defs["Load"]["properties"]["timeout"]
    assert timeout["type"] == "string"
    assert "default" not in timeout


def test_one_thread_that_sleeps_in_accept_is_woken_unless_the_scenario_says_all() -> None:
    def wakes(mechanism: str, **server: Any) -> int:
        content = changed("server", mechanism=mechanism, **server)
        scenario = Scenario.of(**content)
        return settings_of(scenario, 0, seed=1).program.wakes

    assert wakes("blocking") == wakes("epoll_level") == Wakes.USUAL
    assert wakes("blocking", wake="all") == Wakes.ALL
    assert wakes("epoll_level", wake="one") == Wakes.ONE


def test_a_scenario_of_threads_says_how_many_there_can_be() -> None:
    scenario = Scenario.of(
        **changed(
            "server",
            mechanism="blocking",
            threads="on demand",
            workers=20_000,
            stack="8 MiB",
            address_space="3 GiB",
        )
    )
    server = served(settings_of(scenario, 0, seed=1))
    assert (server.threads, server.workers) == (Threads.ON_DEMAND, 20_000)
    assert (server.stack_bytes, server.address_space_bytes) == (8 << 20, 3 << 30)
    assert scenario.server.threads_max == 384
