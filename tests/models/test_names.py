"""Mechanisms by the names that people have for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.toy import arrivals, toy_costs

from dispatchsim.models.catalogue import ALIASES, CATALOGUE, MECHANISMS, client_with, named
from dispatchsim.models.simulate import simulate
from dispatchsim.sim.state.settings import RunSettings


def test_each_name_is_of_one_mechanism() -> None:
    said = [*CATALOGUE, *(alias for entry in CATALOGUE.values() for alias in entry.aliases)]
    assert len(said) == len(set(said))
    for alias, name in ALIASES.items():
        assert named(alias) == named(alias.upper().replace("_", "-")) == name


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_name_of_its_own_is_itself(name: str) -> None:
    assert named(name) == name
    assert named(name.upper().replace("_", "-")) == name


@given(st.text())
def test_any_text_names_a_mechanism_or_stays(text: str) -> None:
    assert named(text) in CATALOGUE or named(text) == text


def test_an_engine_takes_such_a_name() -> None:
    trace, settings = arrivals(10_000, 20_000), RunSettings(duration_ns=1_000_000)
    by_alias, by_name = (
        simulate(name, trace, toy_costs("epoll_level"), settings, engine="reference")
        for name in ("epoll", "epoll_level")
    )
    assert by_alias.same_as(by_name)
    assert client_with("threads").mechanism is MECHANISMS["blocking"]
