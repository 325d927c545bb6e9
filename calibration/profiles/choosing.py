"""Choose the profile of a run: the named one, or else the one that matches the user's CPU.

    --profile ─► the scenario's machine.profile ─► $DISPATCHSIM_PROFILE ─► the CPU's ─► the best

A profile matches by the model of its CPU, or by the family where families are narrow (AMD's hold
one to three generations of cores; Intel's family 6 holds nearly every core since 1995). Hypervisors
hide the model and show the family. If none matches, the best profile is the one with the most
measured mechanisms, then the one with the smallest published errors. A profile of a noisy machine
is chosen by default only if no quiet machine is shipped; a profile of counted instructions only if
there is no other.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from ...scenario.errors import UserError, one_of
from ..testbed.machine_facts import Cpu, cpu
from .cost import MECHANISM_TABLES
from .cost_profile import (
    COUNTED,
    NOISY,
    Profile,
    ProfileError,
    period_profiles,
    shipped,
    shipped_profiles,
)
from .published_errors import MachineErrors, read_errors

VARIABLE = "DISPATCHSIM_PROFILE"
"""The environment variable that names the default profile."""
EXAMPLE = "epyc-family26-2cpu-linux-6.18"
"""The profile of shipped scenarios, lessons and pages: their results are equal on every CPU."""
_AMD, _INTEL = "AuthenticAMD", "GenuineIntel"
_FAMILIES_ARE_NARROW = (_AMD, "HygonGenuine")
_VENDORS = {"amd": _AMD, "intel": _INTEL}
"""By a word in the CPU's name, for profiles older than the recorded vendor."""


class Choice(NamedTuple):
    """The name or file of a profile, and in a few words why it is chosen."""

    name: str
    why: str


def default_choice() -> Choice:
    """Return the default profile, from the environment or for this machine's CPU.

    Raises
    ------
    ProfileError
        If no profile is shipped, or a shipped profile breaks the format.
    """
    named = os.environ.get(VARIABLE, "")
    return Choice(named, f"named by {VARIABLE}") if named else _chosen_here(cpu())


@functools.cache
def _chosen_here(cpu: Cpu) -> Choice:
    return chosen(cpu, shipped())


def chosen(
    cpu: Cpu,
    profiles: Mapping[str, Profile],
    errors_of: Callable[[str], MachineErrors | None] = read_errors,
) -> Choice:
    """Return which of *profiles* is chosen on a machine with that *cpu*, and why.

    Raises
    ------
    ProfileError
        If there are none.
    """
    if not profiles:
        raise ProfileError("profiles: the folder: must hold a profile, got none")

    def reserved(name: str) -> tuple[bool, bool]:
        return name.startswith(COUNTED), NOISY in profiles[name].machine

    def rank(name: str) -> tuple[tuple[bool, bool], int, float, str]:
        return reserved(name), -_n_measured(profiles[name]), _error(errors_of(name)), name

    best_first = sorted(profiles, key=rank)
    usable = [name for name in best_first if not any(reserved(name))]
    for of, matches in (("model", _is_of_model), ("family", _is_of_family)):
        for name in usable:
            if matches(cpu, profiles[name]):
                return Choice(
                    name, f"the profile of your CPU's {of}{_other_model(cpu, profiles[name])}"
                )
    return Choice(
        best_first[0],
        f"no profile matches this CPU, {cpu}: this one has the most measured mechanisms",
    )


def _other_model(cpu: Cpu, profile: Profile) -> str:
    """Return which models differ, if *profile* is known to be of another one; else nothing."""
    number = str(profile.machine.get("cpu_model_number", ""))
    if not number or not cpu.model or number == cpu.model:
        return ""
    return f", but of model {number}; yours is model {cpu.model}"


def _n_measured(profile: Profile) -> int:
    return sum(profile.prices(mechanism) == "measured" for mechanism in MECHANISM_TABLES)


def _error(errors: MachineErrors | None) -> float:
    """Return the mean of the published errors, as factors; an unknown error counts as infinite.

    As differences, a forecast of one third would be closer than a forecast of twice the
    measurement.
    """
    if errors is None:
        return math.inf
    return fmean(math.inf if error is None else abs(math.log1p(error)) for error in errors)


def _is_of_model(cpu: Cpu, profile: Profile) -> bool:
    facts = profile.machine
    if not _are_alike(cpu, profile):
        return False
    if number := facts.get("cpu_model_number"):
        return str(number) == cpu.model
    # A clock rate ("@ 2.20GHz") or the version of an emulator does not identify the model.
    is_model = re.search(r"\d", re.sub(r"@.*|version .*", "", cpu.name))
    return bool(is_model) and facts.get("cpu_model") == cpu.name


def _is_of_family(cpu: Cpu, profile: Profile) -> bool:
    return cpu.vendor in _FAMILIES_ARE_NARROW and _are_alike(cpu, profile)


def _are_alike(cpu: Cpu, profile: Profile) -> bool:
    """Return whether vendor and family are known and equal."""
    facts = profile.machine
    words = re.findall(r"[a-z]+", str(facts.get("cpu_model", "")).lower())
    by_name = next((_VENDORS[word] for word in words if word in _VENDORS), "")
    theirs = str(facts.get("cpu_vendor", by_name)), str(facts.get("cpu_family", ""))
    return all(theirs) and theirs == (cpu.vendor, cpu.family)


def find_profile(name: str | None, option: str = "profile") -> Profile:
    """Return the shipped profile *name*, the profile in the file *name*, or the default one.

    Raises
    ------
    UserError, ProfileError
        If there is no such profile, or its file breaks a rule.
    """
    return Profile.read(find_profile_path(name, option))


def find_profile_path(name: str | None, option: str = "profile") -> Path:
    """Return the file of the profile *name*, which *option* gives; see `find_profile`."""
    key = option
    if name is None:
        name = default_choice().name
        key = VARIABLE if os.environ.get(VARIABLE) else key
    known = shipped_profiles() | period_profiles()
    if name in known:
        return known[name]
    if Path(name).is_file():
        return Path(name)
    rule = f": {one_of(name, known)} (`dispatchsim profiles` describes them)" if known else ""
    raise UserError(f'{key}: there is no file and no profile "{name}"{rule}')


def default_profile() -> Profile:
    """Return the default profile: the one for the user's CPU, or else the best.

    Raises
    ------
    UserError, ProfileError
        If no profile is shipped, or DISPATCHSIM_PROFILE names an unknown one.
    """
    return find_profile(None)


def example_profile() -> Profile:
    """Return the profile of shipped scenarios, lessons and pages, the same on every CPU."""
    return find_profile(EXAMPLE)
