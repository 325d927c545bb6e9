"""Which profile a run takes that names none: by the CPU, which is made up here."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.made_up_profile import profile_content

from dispatchsim.calibration.profiles import choosing
from dispatchsim.calibration.profiles.choosing import (
    EXAMPLE,
    Choice,
    chosen,
    default_choice,
    default_profile,
    example_profile,
    find_profile_path,
)
from dispatchsim.calibration.profiles.cost_profile import Profile, ProfileError, shipped
from dispatchsim.calibration.profiles.published_errors import MachineErrors
from dispatchsim.calibration.testbed import machine_facts
from dispatchsim.calibration.testbed.machine_facts import Cpu, cpu
from dispatchsim.scenario.errors import UserError

MILAN = Cpu("AuthenticAMD", "25", "1", "AMD EPYC")
TURIN = Cpu("AuthenticAMD", "26", "2", "AMD EPYC 9575F 64-Core Processor")
ROME = Cpu("AuthenticAMD", "23", "49", "AMD EPYC 7702")
XEON = Cpu("GenuineIntel", "6", "207", "Intel(R) Xeon(R) Processor")
NOTHING = Cpu("", "", "", "")
GENOA = Cpu("AuthenticAMD", "25", "17", "AMD EPYC")
BEST = "epyc-family25-model1-2cpu-linux-6.18"
FAMILY_26 = "epyc-family26-2cpu-linux-6.18"
NO_MODEL = "Intel(R) Xeon(R) CPU @ 2.20GHz", "QEMU Virtual CPU version 2.5+"
OF_FAMILY = "the profile of your CPU's family"
OF_MODEL = "the profile of your CPU's model"


def made_up(n_measured: int = 3, **machine: str) -> Profile:
    """Return a profile of a *machine*, which has measured so many of three mechanisms."""
    content = profile_content()
    for mechanism in ("select", "poll", "epoll_level")[n_measured:]:
        del content["cost"][mechanism]
    return Profile.model_validate(content | {"machine": machine})


def of_cpu(cpu: Cpu, *, n_measured: int = 3, **further: str) -> Profile:
    """Return a profile that was measured on *cpu*."""
    facts = {"cpu_vendor": cpu.vendor, "cpu_family": cpu.family, "cpu_model": cpu.name}
    return made_up(n_measured, **facts, **further)


def no_errors(name: str) -> None:
    del name


# The shipped ones


@pytest.mark.parametrize(
    ("cpu", "name", "why"),
    [
        (TURIN, FAMILY_26, OF_FAMILY),  # the profile is older than the record of the model
    ],
)
def test_the_family_of_the_cpu_decides(cpu: Cpu, name: str, why: str) -> None:
    assert chosen(cpu, shipped()) == Choice(name, why)


@pytest.mark.parametrize(
    ("cpu", "name"),
    [
        (MILAN, "epyc-family25-model1"),
        (GENOA, "epyc-family25-model17"),
        (XEON, "xeon-family6-model207"),
    ],
)
def test_the_model_of_the_cpu_comes_first(cpu: Cpu, name: str) -> None:
    assert chosen(cpu, shipped()) == Choice(f"{name}-2cpu-linux-6.18", OF_MODEL)


def test_the_choice_names_another_model_of_the_family() -> None:
    vermeer = Cpu("AuthenticAMD", "25", "33", "AMD Ryzen 9 5950X")
    name, why = chosen(vermeer, shipped())
    assert name.startswith("epyc-family25-")
    assert re.fullmatch(rf"{OF_FAMILY}, but of model \d+; yours is model 33", why)


@pytest.mark.parametrize(
    ("cpu", "said"),
    [
        (ROME, "AMD EPYC 7702, family 23, model 49"),
        (XEON._replace(model="143"), "Intel(R) Xeon(R) Processor, family 6, model 143"),
        (NOTHING, "unknown"),
        (Cpu("0x41", "8", "0xd0c", ""), "unknown, family 8, model 0xd0c"),
    ],
)
def test_without_a_match_it_is_the_quiet_one_with_most_mechanisms(cpu: Cpu, said: str) -> None:
    why = f"no profile matches this CPU, {said}: this one has the most measured mechanisms"
    assert chosen(cpu, shipped()) == Choice(BEST, why)


@given(st.builds(Cpu, *[st.sampled_from([*each, ""]) for each in zip(MILAN, XEON, strict=True)]))
def test_neither_noisy_nor_counted_ones_are_taken_unnamed(cpu: Cpu) -> None:
    profile = shipped()[chosen(cpu, shipped()).name]
    assert "noisy" not in profile.machine
    assert not profile.name.startswith("counted-")


# Laws


@given(st.permutations(range(3)), st.sampled_from([MILAN, TURIN, ROME]))
def test_a_match_wins_over_more_mechanisms_in_whatever_order(order: list[int], cpu: Cpu) -> None:
    cpus = [MILAN, TURIN, ROME]
    known = {f"p{i}": of_cpu(cpus[i], n_measured=i + 1) for i in order}
    assert chosen(cpu, known, no_errors).name == f"p{cpus.index(cpu)}"


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_without_a_match_most_mechanisms_win(numbers: list[int]) -> None:
    known = {f"p{i}": of_cpu(ROME, n_measured=n) for i, n in enumerate(numbers)}
    assert chosen(XEON, known, no_errors).name == f"p{numbers.index(max(numbers))}"


def test_the_smallest_errors_decide_between_as_many_mechanisms() -> None:
    errors = {
        "a": MachineErrors(0.05, 0.2, 0.2, 0.1),
        "b": MachineErrors(0.05, 0.1, 0.2, 0.1),
        "c": MachineErrors(0.01, 0.1, 0.1, None),
    }
    for names in itertools.permutations("abcd"):
        known = {name: of_cpu(ROME) for name in names}
        assert chosen(XEON, known, errors.get).name == "b"


def test_a_third_of_what_was_measured_is_farther_off_than_twice_as_much() -> None:
    errors = {
        "third": MachineErrors(0.1, 0.1, -2 / 3, 0.1),
        "twice": MachineErrors(0.1, 0.1, 1, 0.1),
    }
    known = {name: of_cpu(ROME) for name in errors}
    assert chosen(XEON, known, errors.get).name == "twice"


def test_a_model_wins_over_its_family() -> None:
    named = Cpu("AuthenticAMD", "25", "17", "AMD EPYC 9654")
    known = {
        "family": of_cpu(MILAN),
        "name": of_cpu(named, n_measured=1),
        "number": of_cpu(MILAN, n_measured=2, cpu_model_number="33"),
    }
    assert chosen(named, known, no_errors) == Choice("name", OF_MODEL)
    other = Cpu("AuthenticAMD", "25", "33", "AMD Ryzen")
    assert chosen(other, known, no_errors) == Choice("number", OF_MODEL)
    assert chosen(MILAN, known, no_errors) == Choice("family", OF_FAMILY)


def test_a_family_of_intel_is_no_match_and_a_model_is() -> None:
    known = {"mine": of_cpu(XEON, n_measured=1, cpu_model_number="207"), "a": of_cpu(ROME)}
    assert chosen(XEON, known, no_errors) == Choice("mine", OF_MODEL)
    assert chosen(XEON._replace(model="85"), known, no_errors).name == "a"


@pytest.mark.parametrize("name", NO_MODEL)
def test_a_clock_and_an_emulators_version_name_no_model(name: str) -> None:
    cpu = XEON._replace(name=name)
    assert chosen(cpu, {"mine": of_cpu(cpu), "noisy": of_cpu(cpu, noisy="yes")}).why != OF_MODEL


def test_noisy_ones_and_then_counted_ones_are_better_than_none() -> None:
    counted, noisy = {"counted-x": of_cpu(ROME)}, {"x": of_cpu(ROME, n_measured=1, noisy="yes")}
    assert chosen(ROME, counted | noisy, no_errors).name == "x"
    assert chosen(ROME, counted, no_errors).name == "counted-x"
    with pytest.raises(ProfileError, match="profiles: the folder: must hold a profile, got none"):
        chosen(ROME, {})


# The choice of this process


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return what replaces the CPU, where the environment names no profile."""
    monkeypatch.delenv("DISPATCHSIM_PROFILE")
    return monkeypatch


@pytest.mark.parametrize(("cpu", "name"), [(MILAN, BEST), (TURIN, FAMILY_26), (NOTHING, BEST)])
def test_this_machines_cpu_decides(on_cpu: pytest.MonkeyPatch, cpu: Cpu, name: str) -> None:
    on_cpu.setattr(choosing, "cpu", lambda: cpu)
    assert default_choice().name == default_profile().name == name
    assert example_profile().name == EXAMPLE == FAMILY_26


def test_a_variable_is_stronger_than_the_cpu(on_cpu: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_cpu.setattr(choosing, "cpu", lambda: MILAN)
    path = tmp_path / "mine.toml"
    example_profile().write(path)
    on_cpu.setenv("DISPATCHSIM_PROFILE", str(path))
    assert default_choice() == Choice(str(path), "named by DISPATCHSIM_PROFILE")
    assert find_profile_path(None) == path
    assert find_profile_path(FAMILY_26).stem == FAMILY_26
    on_cpu.setenv("DISPATCHSIM_PROFILE", "epyc-family27")
    with pytest.raises(
        UserError, match=r'^DISPATCHSIM_PROFILE: there is no file and no profile "epyc'
    ):
        default_profile()


def test_the_cpu_of_a_machine_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arm = {"CPU implementer": "0x41", "CPU architecture": "8", "CPU part": "0xd0c"}
    amd = {"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "1", "model name": "AMD EPYC"}
    for fields, expected in (
        (arm, Cpu("0x41", "8", "0xd0c", "")),
        (amd, MILAN),
        ({}, NOTHING),
    ):
        monkeypatch.setattr(
            "dispatchsim.calibration.testbed.machine_facts._cpuinfo", lambda f=fields: f
        )
        assert cpu() == expected


@pytest.mark.parametrize(
    ("fields", "begin"),
    [
        ({"cpu family": "25", "model": "1", "model name": "AMD EPYC"}, "epyc-family25-model1-"),
        (
            {"cpu family": "6", "model": "85", "model name": "Intel(R) Xeon(R) E5-2680 @ 2.4GHz"},
            "xeon-e5-family6-",
        ),
    ],
)
def test_the_id_of_a_machine_has_a_model_that_the_name_hides(
    fields: dict[str, str], begin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_facts, "_cpuinfo", lambda: fields)
    assert machine_facts.machine_id().startswith(begin)
