"""A new setting is one declaration: its key, bounds, schema, help and docs follow from it."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

import pytest
from docs.making.reference_pages import key_entry
from pydantic import ValidationError

from dispatchsim.scenario.declared import SettingsSection, properties_in_file, settings_from
from dispatchsim.scenario.key_texts import key_texts
from dispatchsim.scenario.sentences import sentences
from dispatchsim.sim.state.setting import Setting, check_bounds


class Order(IntEnum):
    """In which order a toy goes on."""

    AS_IT_COMES = 0
    LAST_FIRST = 1


class ToySettings(NamedTuple):
    """A record of settings, as in sim/state/program_settings.py."""

    naps: Annotated[int, Setting(least=1, most=50)] = 3
    """How often it sleeps."""
    nap_ns: Annotated[int, Setting(least=0, most="1 s")] = 2_000_000
    """How long it sleeps each time."""
    lost_permille: Annotated[int, Setting(least=0, most=1_000)] = 250
    """Share of its work that is lost, to a thousandth."""
    order: Annotated[int, Setting(words=Order)] = int(Order.AS_IT_COMES)
    """In which order it goes on."""
    is_loud: Annotated[bool, Setting(key="voice", words=("low", "loud"))] = False
    """How it speaks."""
    room_bytes: Annotated[int, Setting(file_least="1 KiB", most="1 GiB", absent_is_0=True)] = 0
    """Its room; absent: without limit."""
    cpus: Annotated[int, Setting(least=1, key=None)] = 1
    """Of a run, and of no file."""


class Toy(SettingsSection, settings=(ToySettings,)):
    """A section of a scenario file."""

    name: str = "toy"
    """A key of its own."""


def _error_of(**keys: object) -> str:
    with pytest.raises(ValidationError) as caught:
        Toy.model_validate(keys)
    (found,) = sentences(caught.value, Toy)
    return found


def test_keys_are_read_into_the_record() -> None:
    assert settings_from(Toy(), ToySettings) == ToySettings()
    toy = Toy.model_validate(
        {"naps": 9, "nap": "3 ms", "lost": 0.1, "order": "last first", "voice": "loud"}
        | {"room": "2 KiB"}
    )
    assert settings_from(toy, ToySettings, cpus=2) == ToySettings(
        naps=9, nap_ns=3_000_000, lost_permille=100, order=1, is_loud=True, room_bytes=2048, cpus=2
    )
    assert toy.model_dump(include={"nap"}) == {"nap": "3 ms"}


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("naps", 0, "naps: must be at least 1, got 0"),
        ("naps", 51, "naps: must be at most 50, got 51"),
        ("nap", "2 s", 'nap: must be at most 1 s, got "2 s"'),
        ("lost", 0.0001, "lost: must be a multiple of 0.001, got 0.0001"),
        ("order", "first", 'order: must be "as it comes" or "last first", got "first"'),
        ("voice", True, 'voice: must be "low" or "loud", got true'),
        ("room", "1 B", 'room: must be at least 1 KiB, got "1 B"'),
        ("cpus", 2, 'cpus: no key is called "cpus"'),
    ],
)
def test_a_file_is_refused_out_of_bounds(key: str, value: object, error: str) -> None:
    assert _error_of(**{key: value}).startswith(error)


def test_a_run_is_refused_out_of_bounds() -> None:
    check_bounds(ToySettings(naps=1_000))  # the bound of 50 is one of files
    with pytest.raises(ValueError, match=r"^toy naps must be at least 1, got 0$"):
        check_bounds(ToySettings(naps=0), "toy ")
    with pytest.raises(ValueError, match=r"^order must be one of .*, got 2$"):
        check_bounds(ToySettings(order=2))


def test_schema_help_and_page_follow() -> None:
    schema = Toy.model_json_schema()
    schema["properties"] = properties_in_file(Toy, schema)
    assert schema["properties"]["naps"] == {
        "default": 3,
        "description": "How often it sleeps.",
        "maximum": 50,
        "minimum": 1,
        "pattern": r"^[0-9][0-9_]*(\.[0-9]+)? ?[kKM]$",
        "title": "Naps",
        "type": ["integer", "string"],
    }
    assert schema["properties"]["nap"]["default"] == "2 ms"
    assert schema["properties"]["order"]["enum"] == ["as it comes", "last first"]
    assert list(schema["properties"]) == ["name", "naps", "nap", "lost", "order", "voice", "room"]
    keys = key_texts("toy", Toy, schema)
    assert key_entry(keys[1]) == (
        "```{confval} toy.naps\n:type: whole number from 1 to 50\n:default: `3`\n\n"
        "How often it sleeps.\n```\n"
    )
