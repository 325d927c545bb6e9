"""`dispatchsim fields`: the keys of scenario files, in a terminal and as JSON."""

from __future__ import annotations

import json
import re

import pytest
from tests.dispatchsim.command_line.test_cli import Call, sentence

from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.scenario.declared import section_of
from dispatchsim.scenario.key_texts import KeyText
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.effects import EFFECTS


def test_all_keys_are_listed_by_section(call: Call) -> None:
    told = call("fields").stdout
    for name, field in Scenario.model_fields.items():
        assert re.search(rf"^\[+{name}\]+: ", told, re.M), name
        for key in section_of(field).model_fields:
            assert re.search(rf"^{name}\.{key} ", told, re.M), key


def test_a_section_shows_bounds_defaults_and_a_line_each(call: Call) -> None:
    told = call("fields", "run").stdout
    assert "load." not in told.replace("`dispatchsim fields load.rate`", "")
    assert re.search(r'run\.duration +duration from 1 ms to 1 h +"2500 ms" +Length of a run', told)
    assert re.search(r"run\.replications +whole number from 1 to 1,000 +5 +Number of runs", told)
    assert call("fields", "[run]").stdout == told


def test_a_key_shows_all_that_is_known_of_it(call: Call) -> None:
    assert call("fields", "network.syn_timeouts").stdout.splitlines()[:2] == [
        'network.syn_timeouts: "doubling", "linear first" or "from 3 s"',
        'default: "doubling"',
    ]
    assert "fails at 127 s" in call("fields", "network.syn_timeouts").stdout
    assert call("fields", "load.rate").stdout == (
        'load.rate: rate from 1/min to 10000000/s, such as "2000/s" (units /h, /min, /s)\n'
        "default: absent\n"
        "Arrival rate of an open loop: connections, or requests where load.connections is given.\n"
    )
    assert call("fields", "backlog").stdout == call("fields", "server.backlog").stdout


def test_a_sentence_does_not_end_at_an_ellipsis() -> None:
    about = "One of select, poll, ... in a list. Another sentence."
    key = KeyText("a.b", "text", "", (), (), "", "", False, about)
    assert key.line == "One of select, poll, ... in a list"


def test_aliases_do_not_count_as_mechanisms(call: Call) -> None:
    told = " ".join(call("fields", "server").stdout.split())
    assert f"server.mechanism one of {len(CATALOGUE)} mechanisms, or an" in told


def test_the_key_that_leaves_effects_out_explains_each(call: Call) -> None:
    told = " ".join(call("fields", "machine.without").stdout.split())
    for name, effect in EFFECTS.items():
        assert f"- {name}: {effect.what}" in told


def test_keys_are_told_as_json(call: Call) -> None:
    known = json.loads(call("fields", "--json").stdout)
    assert known["load.loop"]["choices"] == ["open", "closed"]
    assert known["load.loop"]["must_be_given"]
    of_load = json.loads(call("fields", "load", "--json").stdout)
    assert set(of_load) == {name for name in known if name.startswith("load.")}
    think = json.loads(call("fields", "load.think_time", "--json").stdout)
    assert think == known["load.think_time"]
    assert (think["default"], think["units"][0]) == ("0 s", "ns")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("server.mech", "the nearest are server.mechanism"),
        ("laod", "the nearest are load"),
        ("loda.rate", "the nearest are load.rate, flood.rate"),
        ("rate", "the nearest are load.rate, flood.rate"),
        ("xyz", "sections are server, load, idle, network, backend, run, machine, flood, fault"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(call: Call, name: str, hint: str) -> None:
    said = sentence(call("fields", name))
    assert said.startswith(f"{name}: must be a section or a key of a scenario ({hint}")
