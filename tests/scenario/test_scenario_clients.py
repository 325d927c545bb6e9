"""What a scenario file says of classes of clients and of requests on a connection."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.running.preparation import warnings_of
from dispatchsim.command_line.rendering import print_result
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.key_texts import SectionText, find_text
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario, scenario_schema
from dispatchsim.sim.load.reply_sizes import SPECWEB99
from dispatchsim.sim.load.trace_file import REQUESTS_MAX
from dispatchsim.sim.state.client_classes import ClientClass
from dispatchsim.sim.state.laws import Counts, Law
from dispatchsim.studies.comparison import run

OPEN = {"loop": "open", "rate": "1000/s"}
KEPT = {"loop": "open", "rate": "1000/s", "connections": 100}
CLOSED = {"loop": "closed", "users": 20}
LOGNORMAL = {
    **OPEN,
    "requests": 2,
    "think": "lognormal",
    "think_time": "1 s",
    "think_p99": "4 s",
}
HALVES = ({"share": 0.5}, {"share": 0.5})


def scenario(load: dict[str, Any], *clients: dict[str, Any], **sections: Any) -> Scenario:
    return Scenario.of(
        server={"mechanism": "epoll_level"}, load=load, clients=list(clients), **sections
    )


def mistakes(load: dict[str, Any], *clients: dict[str, Any], **sections: Any) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        scenario(load, *clients, **sections)
    return [each.removeprefix("scenario: ") for each in caught.value.mistakes]


def test_classes_have_what_they_say_and_else_what_the_load_says() -> None:
    load = {**OPEN, "requests": 4, "requests_spread": "geometric", "think_time": "2 ms"}
    busy = {"share": 0.25, "requests": 90, "think": "constant", "reply_mix": "specweb99"}
    quiet = {"share": 0.75, "request_size": "1 KiB", "reply_size": "2 KiB", "think_time": "1 s"}
    found = settings_of(scenario(load, busy, quiet), 0, 1)
    assert found.classes == (
        ClientClass(
            250,
            Counts("geometric", 90),
            reply_mix=SPECWEB99,
            pause=Law("constant", 2_000_000),
            requests_permille=250,
        ),
        ClientClass(
            750,
            Counts("geometric", 4),
            request_bytes=1_024,
            reply_bytes=2_048,
            pause=Law("exponential", 1_000_000_000),
            requests_permille=750,
        ),
    )
    assert found.laws.pause is None


def test_a_number_of_its_own_is_of_no_file(tmp_path: Path) -> None:
    numbers, pauses = tmp_path / "numbers.txt", tmp_path / "pauses.txt"
    numbers.write_text("# seen on Monday\n1\n7 # a long one\n\n1\n")
    pauses.write_text("1 ms\n3 ms\n")
    load = {
        **OPEN,
        "requests_spread": "samples",
        "requests_file": str(numbers),
        "think": "samples",
        "think_file": str(pauses),
    }
    asked = scenario(load, {"share": 0.5}, {"share": 0.5, "requests": 3, "think_time": "5 ms"})
    as_load, own = asked.client_classes
    assert as_load.requests == Counts("samples", samples=(1, 7, 1))
    assert as_load.pause == Law("samples", samples_ns=(1_000_000, 3_000_000))
    assert own.requests == Counts("constant", 3)
    assert own.pause == Law("exponential", 5_000_000)
    assert asked.requests_each == 3.0
    assert Scenario.of(server={"mechanism": "poll"}, load=load).requests_each == 3.0


def test_files_are_relative_to_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "numbers.txt").write_text("2\n")
    file = tmp_path / "s.toml"
    file.write_text(
        '[server]\nmechanism = "poll"\n[load]\nloop = "open"\nrate = "100/s"\n'
        '[[clients]]\nshare = 0.5\nrequests_spread = "samples"\nrequests_file = "numbers.txt"\n'
        "[[clients]]\nshare = 0.5\n"
    )
    classes = Scenario.read(file).client_classes
    assert [each.requests for each in classes] == [Counts("samples", samples=(2,)), Counts()]


def test_kept_connections_of_a_class_may_never_close() -> None:
    some, others = scenario(KEPT, {"share": 0.5, "requests": 5}, {"share": 0.5}).client_classes
    assert some.requests == Counts("constant", 5)
    assert others.requests == Counts("constant", REQUESTS_MAX)
    assert scenario(KEPT).load.keeps_for_ever
    assert not scenario({**KEPT, "requests": 9, "requests_spread": "geometric"}).load.keeps_for_ever


def test_paths_have_the_shares_of_the_classes_that_name_them() -> None:
    paths = [{"name": "near"}, {"name": "far", "delay": "5 ms"}]
    classes = ({"share": 0.2, "path": "far"}, {"share": 0.3, "path": "near"})
    found = settings_of(scenario(OPEN, *classes, {"share": 0.5, "path": "far"}, path=paths), 0, 1)
    assert [each.path for each in found.classes] == [1, 0, 1]
    assert [each.share_permille for each in found.network.paths] == [300, 700]


@pytest.mark.parametrize(
    ("load", "clients", "message"),
    [
        (OPEN, [{"share": 1.0}], "clients: must be 2 to 16 sections, or none, got 1"),
        (
            OPEN,
            [{"share": 0.05}] * 20,
            "clients: must be 2 to 16 sections, or none, got 20",
        ),
        (
            OPEN,
            [{"share": 0.5}, {"share": 0.4}],
            "clients.share: must add up to 1 over all [[clients]], got 0.9",
        ),
        (OPEN, [{"share": 0.5}, {}], "clients 2.share: is missing"),
        (
            OPEN,
            [{"share": 0.5, "speed": 1}, {"share": 0.5}],
            'clients 1.speed: no key is called "speed" (known keys: name, share, requests,',
        ),
        (
            OPEN,
            [{"share": 0.5, "path": "modem"}, {"share": 0.5, "path": "lan"}],
            'clients 1.path: must be absent, as there is no [[path]], got "modem"',
        ),
        (
            OPEN,
            [{"share": 0.5, "name": "a"}, {"share": 0.5, "name": "a"}],
            'clients 2.name: must be of one class only, got "a"',
        ),
        (
            OPEN,
            [{"share": 0.5, "reply_size": "1 KiB", "reply_mix": "specweb99"}, {"share": 0.5}],
            "clients 1.reply_size: must be absent where clients 1.reply_mix is given, got 1 KiB",
        ),
        (
            {**OPEN, "requests": 3},
            [{"share": 0.5, "requests": 2}, {"share": 0.5, "requests": 9}],
            "load.requests: must be absent where every [[clients]] has its own, got 3",
        ),
        (
            OPEN,
            [{"share": 0.5, "requests_share": 0.5}, {"share": 0.5, "requests_share": 0.5}],
            "clients 1.requests_share: must be absent unless load.connections is given, got 0.5",
        ),
        (
            KEPT,
            [{"share": 0.5, "requests_share": 0.5}, {"share": 0.5}],
            "clients 2.requests_share: must be given in every [[clients]], or in none, got nothing",
        ),
        (
            KEPT,
            [{"share": 0.5, "requests_share": 0.5}, {"share": 0.5, "requests_share": 0.4}],
            "clients.requests_share: must add up to 1 over all [[clients]], got 0.9",
        ),
        (
            KEPT,
            [{"share": 0.5, "think_time": "1 s"}, {"share": 0.5}],
            "clients 1.think_time: must be absent where load.connections is given: requests "
            "arrive at load.rate, got 1 s",
        ),
        (
            CLOSED,
            [{"share": 0.01}, {"share": 0.99}],
            "clients 1.share: must give at least one of load.users (20), got 0.01",
        ),
        (
            OPEN,
            [{"share": 0.5, "requests_spread": "geometric"}, {"share": 0.5}],
            'clients 1.requests: is missing, and clients 1.requests_spread = "geometric" needs it',
        ),
        (
            OPEN,
            [{"share": 0.5, "think_p99": "1 s"}, {"share": 0.5}],
            'clients 1.think_p99: must be absent where load.think is "exponential", got 1 s',
        ),
        (
            OPEN,
            [{"share": 0.5, "think": "lognormal", "think_time": "1 s"}, {"share": 0.5}],
            'clients 1.think_p99: must be given where clients 1.think is "lognormal", got nothing',
        ),
        (
            LOGNORMAL,
            [{"share": 0.5, "think_time": "5 s"}, {"share": 0.5}],
            "load.think_p99: must be above 5 s, the mean of clients 1, which takes it over, "
            "got 4 s",
        ),
        (
            LOGNORMAL,
            [{"share": 0.5}, {"share": 0.5, "think_time": "1 ms"}],
            "load.think_p99: must be at most 8 times 1 ms, the mean of clients 2, which takes it "
            "over, got 4 s",
        ),
        (
            LOGNORMAL,
            [{"share": 0.5, "think_time": "0 s"}, {"share": 0.5}],
            'clients 1.think_time: must be above 0 s where load.think is "lognormal", got 0 s',
        ),
        (
            {**OPEN, "reply_mix": "specweb99"},
            [{"share": 0.5, "reply_size": "3 kB"}] * 2,
            'load.reply_mix: must be absent where every [[clients]] has its own, got "specweb99"',
        ),
        (
            OPEN,
            [{"share": 0.5, "name": ""}, {"share": 0.5}],
            'clients 1.name: must have 1 to 40 characters, got ""',
        ),
        (
            OPEN,
            [{"share": 0.5}, {"share": 0.5, "name": 41 * "x"}],
            f'clients 2.name: must have 1 to 40 characters, got "{41 * "x"}"',
        ),
        (
            OPEN,
            [{"share": 0.5, "name": "a\nb"}, {"share": 0.5}],
            'clients 1.name: must have no control characters, got "a\\nb"',
        ),
        (
            OPEN,
            [{"share": math.nan}, {"share": 0.5}],
            'clients 1.share: must be a number such as 0.5, or a percentage such as "50%", got nan',
        ),
        (
            OPEN,
            [{"share": "half"}, {"share": 0.5}],
            'clients 1.share: must be a number such as 0.5, or a percentage such as "50%", '
            'got "half"',
        ),
    ],
)
def test_what_makes_no_classes_is_refused(
    load: dict[str, Any], clients: list[dict[str, Any]], message: str
) -> None:
    (found,) = mistakes(load, *clients)
    assert found.startswith(message)


def test_a_spread_of_the_load_keeps_the_keys_that_it_needs() -> None:
    load = {
        **OPEN,
        "requests": 2,
        "requests_spread": "geometric",
        "think": "lognormal",
        "think_time": "10 ms",
        "think_p99": "40 ms",
    }
    own = {"requests": 5, "think_time": "20 ms", "think_p99": "90 ms"}
    for each in scenario(load, {"share": 0.5, **own}, {"share": 0.5, **own}).client_classes:
        assert each.requests == Counts("geometric", 5)
        assert each.pause == Law("lognormal", 20_000_000, 90_000_000)


def test_pauses_between_no_requests_are_a_warning(profile: Profile) -> None:
    pauses = {"share": 0.5, "think_time": "2 s"}
    one = scenario(OPEN, pauses, {"share": 0.5})
    assert warnings_of(one, profile) == [
        "clients 1.think_time: has no effect with one request on a connection, got 2 s"
    ]
    for load, more in ((OPEN, {"requests": 2}), ({**OPEN, "requests": 3}, {}), (CLOSED, {})):
        asked = scenario(load, {**pauses, **more}, {"share": 0.5})
        assert warnings_of(asked, profile) == []


def test_where_classes_are_not_for() -> None:
    assert mistakes({"loop": "open", "trace": "t.trace"}, *HALVES) == [
        "clients: must be absent where load.trace is given, got 2 sections"
    ]
    assert mistakes(CLOSED, *HALVES, machine={"role": "client"}) == [
        'clients: must be absent where machine.role is "client", got 2 sections'
    ]
    assert mistakes(KEPT, path=[{"share": 1.0}]) == [
        "path: must be absent where load.connections is given, got 1 section"
    ]
    with pytest.raises(ScenarioError) as caught:
        Scenario.of(server={"mechanism": "poll"}, load=OPEN, clients={"share": 1.0})
    assert caught.value.mistakes == [
        "scenario: clients: must be sections [[clients]], got one section"
    ]


def test_paths_and_classes_that_do_not_go_together_are_refused() -> None:
    named = ({"share": 0.5, "path": "a"}, {"share": 0.5, "path": "a"})
    assert mistakes(OPEN, *named, path=[{"name": "a", "share": 1.0}]) == [
        "path 1.share: must be absent where [[clients]] name their paths, got 1"
    ]
    assert mistakes(OPEN, *named, path=[{"name": "a"}, {"name": "b"}]) == [
        'path 2: must be the path of at least one [[clients]], got none on "b"'
    ]
    some = ({"share": 0.5, "path": "a"}, {"share": 0.5})
    assert mistakes(OPEN, *some, path=[{"name": "a"}]) == [
        "clients 2.path: must be given in every [[clients]], or in none, got nothing"
    ]
    assert mistakes(OPEN, *named, path=[{"name": "lan"}, {"name": "wan"}]) == [
        'clients 1.path: must be one of lan, wan, got "a"'
    ]


def test_a_rate_that_busy_connections_cannot_carry_is_refused() -> None:
    # Ten connections carry half of all requests, each one in a round trip of 20 ms: 1000/s.
    busy = {"share": 0.1, "requests_share": 0.5}
    quiet = {"share": 0.9, "requests_share": 0.5}
    network = {"delay": "10 ms"}
    assert scenario(KEPT, busy, quiet, network=network).rate_max_per_s == 1_000
    assert mistakes({**KEPT, "rate": "1001/s"}, busy, quiet, network=network) == [
        "load.rate: must be at most 1,000/s, as each of 10 connections of clients 1 carries one "
        "request per round trip (network.delay twice), got 1001/s"
    ]
    one = {**KEPT, "connections": 1, "rate": "1000000/s"}
    assert mistakes(one, network={"delay": "5 ms"}) == [
        "load.rate: must be at most 100/s, as each of 1 connections carries one request per round "
        "trip (network.delay twice), got 1000000/s"
    ]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("many", 'must be a whole number from 1 to 100000, got "many"'),
        ("0", 'must be a whole number from 1 to 100000, got "0"'),
        ("-3", 'must be a whole number from 1 to 100000, got "-3"'),
        ("100001", 'must be a whole number from 1 to 100000, got "100001"'),
        ("1.5", 'must be a whole number from 1 to 100000, got "1.5"'),
        ("9" * 30, f'must be a whole number from 1 to 100000, got "{"9" * 30}"'),
    ],
)
def test_a_file_of_numbers_with_another_line_is_refused(
    tmp_path: Path, line: str, rule: str
) -> None:
    file = tmp_path / "numbers.txt"
    file.write_text(f"# of a day\n4\n{line}\n")
    load = {**OPEN, "requests_spread": "samples", "requests_file": str(file)}
    assert mistakes(load) == [f"load.requests_file: {file} line 3: {rule}"]


def test_keys_of_a_spread_go_together(tmp_path: Path) -> None:
    file = tmp_path / "numbers.txt"
    file.write_text("# nothing\n")
    samples = {**OPEN, "requests_spread": "samples"}
    for load, rule in (
        (
            {**OPEN, "requests_spread": "geometric"},
            'load.requests: is missing, and load.requests_spread = "geometric" needs it',
        ),
        (
            samples,
            'load.requests_file: must be given where load.requests_spread is "samples", '
            "got nothing",
        ),
        (
            {**OPEN, "requests_file": "a"},
            'load.requests_file: must be absent where load.requests_spread is "constant", got "a"',
        ),
        (
            {**samples, "requests_file": str(file), "requests": 3},
            "load.requests: must be absent where load.requests_file is given, got 3",
        ),
        (
            {**samples, "requests_file": str(file)},
            f"load.requests_file: {file} must have 1 to 1000000 numbers, got 0",
        ),
        (
            {**samples, "requests_file": str(tmp_path)},
            f"load.requests_file: {tmp_path} cannot be read (is a directory)",
        ),
    ):
        assert mistakes(load) == [rule]


def test_results_tell_classes_apart() -> None:
    asked = scenario(
        {**KEPT, "rate": "2000/s"},
        {"name": "busy", "share": 0.1, "requests_share": 0.5},
        {"name": "quiet", "share": 0.9, "requests_share": 0.5},
        run={"duration": "500 ms", "warm_up": "100 ms", "replications": 2},
    )
    result = run(asked, draws=2)
    assert set(result.clients) == {"busy", "quiet"}
    offered = sum(each["offered"].mean for each in result.clients.values())
    assert offered == pytest.approx(2_000 * 0.4, rel=0.1)
    known = json.loads(json.dumps(result.to_dict()))["clients"]["busy"]
    assert set(known) == {
        "offered",
        "replied",
        "failed",
        "p50_answered_ns",
        "p99_answered_ns",
        "p50_ns",
        "p99_ns",
    }
    text = io.StringIO()
    print_result(Console(file=text, width=120), result)
    assert "by class of clients, means of a run" in text.getvalue()
    assert {line.split()[0] for line in text.getvalue().splitlines() if line} > {"busy", "quiet"}


def test_classes_are_random_and_shown_with_their_keys() -> None:
    constant = {**OPEN, "arrivals": "constant"}
    assert len(scenario(constant).seeds) == 1
    assert len(scenario(constant, *HALVES).seeds) == 5
    assert len(scenario({**constant, "requests": 2, "requests_spread": "geometric"}).seeds) == 5
    section = find_text("clients")
    assert isinstance(section, SectionText)
    assert section.heading == "[[clients]]"
    keys = set(scenario_schema()["$defs"]["ClientsSection"]["properties"])
    assert {each.field for each in section.keys} == {f"clients.{key}" for key in keys}
    again = scenario(OPEN, *HALVES).with_values(load={"rate": "500/s"})
    assert len(again.client_classes) == 2
