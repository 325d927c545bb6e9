"""A profile: what calls, interrupts and scans cost on one machine, with uncertainties.

    profiles/MACHINE.toml ──read──► Profile ──costs(mechanism, open_connections)──► sim Costs

Every cost is a curve over a count: of open connections, or of scanned descriptors. The README of
the folder above describes the format. A file is TOML, with comments on the source of costs.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, Field, PrivateAttr, Strict, ValidationError, model_validator

from ...scenario.errors import unknown_key
from ...sim.files.whole_files import write_whole
from ...sim.load.streams import generator
from ...sim.state.costs import (
    NO_CLIENT,
    ApplicationCosts,
    CallCosts,
    ClientCosts,
    ColdCosts,
    Costs,
    Curve,
    InterruptCosts,
    curve_ns,
)
from ...sim.state.effects import EFFECTS
from ...sim.state.units import round_ns
from .cost import (
    CONNECTION,
    DISPLACED,
    MECHANISM_TABLES,
    REQUEST,
    SHARED_TABLES,
    TABLES,
    Cost,
    Frozen,
    cost_problems,
    required_costs,
    short,
    unit_of,
)
from .lent_costs import extras, lent

FORMAT = "dispatchsim-profile/1"
_FOLDER = Path(__file__).parent
Prices = Literal["measured", "lent", "none"]
PRICES: tuple[Prices, ...] = get_args(Prices)
COUNTED = "counted-"  # prefix of the names of emulated targets
MEASURED, QUICKLY = "measured", "quickly"
"""The profile's fact for the length of a measurement, and its value for two minutes."""
NOISY = "noisy"
"""The machine's fact that describes what disturbed its measurements."""

Fact = str | int | float | bool
_Count = Annotated[int, Strict()]
_Text = Annotated[str, Strict()]


class ProfileError(ValueError):
    """A profile breaks a rule. The message names file, key, rule and value."""


class _Range(Frozen):
    open_connections_max: _Count


class Noise(Frozen):
    """Disturbances of the machine by its host.

    Recordings of the host's gaps are in a file beside the profile; `sha256` is its hash. Costs
    hold while each CPU has a core to itself. The server's CPU shared its core for
    `core_busy_share` of the time; calls then took `core_busy_ratio` times as long. None: not
    measured.
    """

    recordings: _Text
    sha256: _Text
    core_busy_share: float | None = None
    core_busy_ratio: float | None = None


class Profile(Frozen):
    """The costs of one machine.

    `machine` holds facts for people. `cost` is keyed by table and by the names of its fields.
    """

    format: Literal["dispatchsim-profile/1"] = "dispatchsim-profile/1"
    name: _Text
    machine: dict[str, Fact] = Field(default_factory=dict)
    range: _Range
    cost: dict[str, dict[str, Cost]]
    noise: Noise | None = None
    _file: str = PrivateAttr("")  # the file it was read from, for messages
    _tables: tuple[object, dict[str, Mapping[str, Cost]]] = PrivateAttr((None, {}))

    def __eq__(self, other: object) -> bool:
        """Return whether both have equal contents; their files may differ."""
        return isinstance(other, Profile) and dict(self) == dict(other)

    def __hash__(self) -> int:
        """Return a number that is equal for equal profiles."""
        return hash(self.name)

    @model_validator(mode="after")
    def _keeps_the_rules(self) -> Profile:
        for problem in _problems(self):
            raise ValueError(problem)
        return self

    @classmethod
    def read(cls, path: Path | str) -> Profile:
        """Read a profile.

        Raises
        ------
        ProfileError
            If the file breaks the format; with file, key, rule and value.
        """
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ProfileError(
                f"{path}: the file: must be readable, got {error.strerror}"
            ) from error
        except ValueError as error:
            raise ProfileError(f"{path}: the file: must be TOML, got {error}") from error
        if content.get("format") != FORMAT:
            raise ProfileError(
                f'{path}: format: must be "{FORMAT}", got {short(content.get("format"))}'
            )
        try:
            profile = cls.model_validate(content)
        except ValidationError as error:
            raise ProfileError(f"{path}: {_sentence(error)}") from error
        profile._file = str(path)
        return profile

    def write(self, path: Path | str) -> None:
        """Write the profile as TOML, whole or not at all."""
        write_whole(Path(path), toml_of(self))

    def missing_for(self, mechanism: str) -> tuple[str, ...]:
        """Return the keys of the costs that a run with *mechanism* needs and the profile lacks.

        Raises
        ------
        ValueError
            If *mechanism* is unknown.
        """
        if mechanism not in MECHANISM_TABLES:
            known = ", ".join(MECHANISM_TABLES)
            raise ValueError(f'mechanism must be one of {known}, got "{mechanism}"')
        return tuple(
            f"cost.{table}.{name}"
            for table in (*SHARED_TABLES, mechanism)
            for name in required_costs(TABLES[table])
            if name not in self.table(table)
        )

    def table(self, table: str) -> Mapping[str, Cost]:
        """Return the costs of a table; borrowed costs if the profile lacks the table."""
        costs, tables = self._tables
        if costs is not self.cost:  # a copy with other costs inherits the cache of its original
            tables = {}
            self._tables = self.cost, tables
        if table not in tables:
            tables[table] = _table_of(self.cost, table)
        return tables[table]

    @property
    def older_than(self) -> list[str]:
        """The effects whose costs this profile lacks because it is older than them.

        Runs with this profile omit these effects. Effects of packet clients are among them only if
        its clients were packets. Reconstructed profiles and profiles of counted
        instructions never have these costs: no source gives them, or all packets come from outside
        the machine.
        """
        if self.machine.get("reconstructed") or "network_delay_ns" in self.machine:
            return []
        of_packets = "ack_ns" in self.cost.get("client", {})
        return [
            name
            for name, effect in EFFECTS.items()
            if (of_packets or not effect.is_of_packet_clients) and not self.has_effect(name)
        ]

    def has_effect(self, name: str) -> bool:
        """Return whether this profile has a cost of the effect *name*."""
        parts = (cost.split(".") for cost in EFFECTS[name].costs)
        return any(field in self.cost.get(table, {}) for table, field in parts)

    def missing_effects(self) -> str | None:
        """Return a sentence on the effects that runs with these costs omit, else None."""
        older = self.older_than
        if not older:
            return None
        benches = dict.fromkeys(EFFECTS[name].bench for name in older)
        commands = [
            f"`dispatchsim measure {kind}`"
            for kind, is_wanted in (
                ("machine micro", set(benches) - {"flood"}),
                ("flood", "flood" in benches),
            )
            if is_wanted
        ]
        return (
            f"{self.name} has no costs for {', '.join(older)}; runs omit these effects. "
            f"To add the costs: {' and '.join(commands)}, then `dispatchsim calibrate machine`"
        )

    def prices(self, mechanism: str) -> Prices:
        """Return the origin of the costs of *mechanism*: measured, borrowed (`lent`), or none."""
        if self.missing_for(mechanism):
            return "none"
        return "measured" if mechanism in self.cost else "lent"

    def not_measured(self, mechanism: str, uses: Sequence[str] = ()) -> str | None:
        """Return a sentence if the costs of *mechanism* are borrowed, else None.

        *uses* names costs that only some runs have: the sentence also names those not measured.
        """
        if self.machine.get("reconstructed"):
            return f"{self.name} was not measured: its costs are reconstructed from the literature"
        if self.prices(mechanism) == "measured":
            missing = [name for name in uses if name not in self.cost[mechanism]]
            given = self.table(mechanism)
            how = [
                f"{mechanism}.{name} ({given[name].source if name in given else '0 is used'})"
                for name in missing
            ]
            return f"{self.name} has no measured cost for {'; '.join(how)}" if missing else None
        if self.prices(mechanism) == "none":
            return None
        lenders = dict.fromkeys(
            cost.source.removeprefix("borrowed: ").split(".")[0]
            for cost in self.table(mechanism).values()
        )
        if not lenders:
            return f"{self.name} has no measured costs for {mechanism}: its own costs are 0 here"
        return (
            f"{self.name} has no measured costs for {mechanism}: they are borrowed from "
            f"{' and '.join(lenders)}, assuming similar work"
        )

    def costs(
        self,
        mechanism: str,
        *,
        open_connections: int,
        sample: int | None = None,
        free_clients: bool = False,
    ) -> Costs:
        """Return the costs of a run of *mechanism* with about *open_connections*.

        Parameters
        ----------
        sample:
            If given, the number of a cost sample: every cost is multiplied by a random factor from
            its interval. A factor depends only on this number and on the name of the cost, so two
            mechanisms have equal factors for their common costs, and a new cost changes no other.
        free_clients:
            Omit the clients' own costs.

        Raises
        ------
        ProfileError
            If the profile lacks costs of the mechanism.
        """
        if open_connections < 0:
            raise ValueError(f"open_connections must be at least 0, got {open_connections}")
        missing = self.missing_for(mechanism)
        if missing:
            where = self._file or self.name
            raise ProfileError(
                f"{where}: has no costs of {mechanism} ({missing[0]} is missing); "
                f"{_who_has(mechanism)}"
            )

        def factor(table: str, name: str, cost: Cost) -> float:
            if sample is None:
                return 1.0
            return cost.factor(_normal(sample, f"{table}.{name}"))

        def resolved(table: str) -> dict[str, Any]:
            hints = _hints_of(TABLES[table])
            fields, given = {}, self.table(table)
            for name, kind in hints.items():
                if name not in given:
                    continue  # the table has a default
                priced = given[name].curve(factor(table, name, given[name]))
                fields[name] = priced if kind is Curve else curve_ns(priced, open_connections)
            return fields

        application, interrupt = resolved("application"), resolved("interrupt")
        own = self.table(mechanism).get(REQUEST)
        if own is not None:
            priced = own.curve(factor("application", REQUEST, own))
            application[REQUEST] = curve_ns(priced, open_connections)
            # `own` was fitted without a cost per connection
            application.pop(CONNECTION, None)
            interrupt.pop(DISPLACED, None)
        return Costs(
            InterruptCosts(**interrupt),
            CallCosts(**resolved("call")),
            ApplicationCosts(**application),
            NO_CLIENT if free_clients else ClientCosts(**resolved("client")),
            MECHANISM_TABLES[mechanism](**resolved(mechanism)),
            **resolved("sharing"),
            cold=ColdCosts(**resolved("cold")),
            handover_ns=resolved("blocking").get("saved_ns", 0),  # in any call that sleeps
        )

    @property
    def network_delay_ns(self) -> int:
        """The delay of the link each way."""
        return round_ns(self.cost["network"]["delay_ns"].value[0])

    @property
    def noise_file(self) -> str:
        """The file with recordings of the machine's gaps (`[noise]`); empty if there is none.

        Raises
        ------
        ProfileError
            If the file is missing, or is not the one that the profile was made with.
        """
        if self.noise is None:
            return ""
        path = Path(self._file).parent / self.noise.recordings
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise ProfileError(
                f"{self._file or self.name}: noise.recordings: must be a file beside the profile, "
                f'got "{self.noise.recordings}" ({error.strerror})'
            ) from error
        if found != self.noise.sha256:
            raise ProfileError(
                f"{self._file or self.name}: noise.sha256: must be that of "
                f"{self.noise.recordings} ({found[:12]}...), got {self.noise.sha256[:12]}..."
            )
        return str(path)

    @property
    def machine_id(self) -> str:
        """The id of the machine; empty if unknown."""
        return str(self.machine.get("id", ""))

    @property
    def kernel(self) -> str:
        """The version of the machine's kernel; empty if unknown."""
        return str(self.machine.get("kernel", ""))

    @property
    def machine_warnings(self) -> list[str]:
        """Warnings about a noisy machine and about a shared core."""
        told = []
        if NOISY in self.machine:
            told.append(
                f"the costs of {self.name} were measured on a noisy machine; "
                "`dispatchsim profiles` shows its forecast errors"
            )
        if self.noise and self.noise.core_busy_share and self.noise.core_busy_ratio is not None:
            told.append(
                f"the costs of {self.name} hold while the server has a core to itself; for about "
                f"{self.noise.core_busy_share:.0%} of the time the core was most likely shared, "
                f"and calls took {self.noise.core_busy_ratio:.1f} times as long"
            )
        return told

    def without(self, patterns: Sequence[str]) -> Profile:
        """Return the profile with costs of 0 where they match one of *patterns* (`*.register`)."""
        tables = {
            table: {
                name: cost.nothing()
                if any(fnmatch.fnmatchcase(f"{table}.{name}", pattern) for pattern in patterns)
                else cost
                for name, cost in costs.items()
            }
            for table, costs in self.cost.items()
        }
        return self.model_copy(update={"cost": tables})

    def outside_range(self, open_connections: int) -> str | None:
        """Return a sentence if *open_connections* are more than were measured, else None."""
        known = self.range.open_connections_max
        if open_connections <= known:
            return None
        how = "is reconstructed for" if self.machine.get("reconstructed") else "was measured"
        return (
            f"costs at {open_connections} open connections are extrapolated: "
            f"{self.name} {how} up to {known}"
        )


def _table_of(cost: Mapping[str, dict[str, Cost]], table: str) -> Mapping[str, Cost]:
    own = cost.get(table) or lent(table, cost)
    return {**extras(table, cost), **own} if own else own


@functools.cache
def _hints_of(table: type) -> dict[str, Any]:
    return get_type_hints(table)


@functools.lru_cache(maxsize=1 << 13)  # each point of a study has the same samples
def _normal(sample: int, key: str) -> float:
    """Return the standard normal number of the cost *key* in cost sample number *sample*."""
    return float(generator(sample, f"cost {key}").standard_normal())


def _who_has(mechanism: str) -> str:
    """Return the end of an error: the shipped profiles that have costs for *mechanism*."""
    names = [name for name, profile in shipped().items() if profile.prices(mechanism) != "none"]
    if not names:
        return "no shipped profile has them"
    return f"name a profile with them, by --profile or machine.profile: {', '.join(names)}"


def shipped_profiles() -> dict[str, Path]:
    """Return the profiles that come with the package, by name.

    Profiles of counted instructions come last, because no planner needs them.
    """
    found = {path.stem: path for path in _FOLDER.glob("*.toml")}
    names = sorted(found, key=lambda name: (name.startswith(COUNTED), name))
    return {name: found[name] for name in names}


def period_folder() -> Path:
    """Return the folder of the profiles that were reconstructed from the literature."""
    return _FOLDER / "period"


def period_profiles() -> dict[str, Path]:
    """Return the reconstructed profiles of the papers' machines, by name."""
    return {path.stem: path for path in sorted(period_folder().glob("*.toml"))}


@functools.cache
def shipped() -> dict[str, Profile]:
    """Return the profiles of `shipped_profiles`, read once.

    Raises
    ------
    ProfileError
        If a file breaks the format.
    """
    return {name: Profile.read(path) for name, path in shipped_profiles().items()}


def _problems(profile: Profile) -> Iterator[str]:
    """Yield every broken rule of the format, as `key: rule, got value`."""
    if profile.range.open_connections_max < 0:
        got = profile.range.open_connections_max
        yield f"range.open_connections_max: must be at least 0, got {got}"
    # Report an unknown key before a missing one: it is often the missing key, misspelt.
    for table, costs in profile.cost.items():
        known = _known_costs(table)
        if not known:
            yield f"cost.{table}: {unknown_key(table, TABLES)}"
        for name in costs:
            if known and name not in known:
                yield f"cost.{table}.{name}: {unknown_key(name, known)}"
    for table, kind in TABLES.items():
        if table in MECHANISM_TABLES and table not in profile.cost:
            continue
        given = profile.cost.get(table, {})
        for name in _known_costs(table):
            key = f"cost.{table}.{name}"
            if name not in given and name in required_costs(kind):
                yield f"{key}: must be given, got none"
            elif name in given:
                yield from cost_problems(key, given[name], unit_of(table, name))


def _known_costs(table: str) -> tuple[str, ...]:
    """Return the names of the costs that a table may have; empty if there is no such table."""
    if table not in TABLES:
        return ()
    own = (REQUEST,) if table in MECHANISM_TABLES else ()
    return (*TABLES[table]._fields, *own)


def _sentence(error: ValidationError) -> str:
    """Return an error of pydantic as `key: rule, got value`, an unknown key first."""
    # An unknown key is often a missing key, misspelt.
    first = min(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    place = [str(part) for part in first["loc"]]
    key = ".".join(place)
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        return f"{key}: must be given, got none"
    if first["type"] == "extra_forbidden":
        return f"{key}: {unknown_key(place[-1], _keys_at(place[:-1]))}"
    rule = first["msg"].replace("Input should", "must")
    return f"{key}: {rule}, got {short(first['input'])}"


def _keys_at(place: Sequence[str]) -> list[str]:
    """Return the keys of the table at *place*."""
    model: type[BaseModel] = Profile
    if place:
        model = _Range if place[0] == "range" else Cost
    return list(model.model_fields)


_HEADING = ("cpu_model", "kernel", "date", "command")  # facts in the first lines of a file


def toml_of(profile: Profile) -> str:
    """Return *profile* as TOML, with its source in comments."""
    facts = profile.machine
    lines = [
        "# What calls, interrupts and scans cost on one machine, in ns of its server's CPU.",
        *(f"# {key}: {_literal(facts[key])}" for key in _HEADING if key in facts),
        "",
        f"format = {_literal(profile.format)}",
        f"name = {_literal(profile.name)}",
        "",
        "[machine]",
        *(f"{_key(key)} = {_literal(fact)}" for key, fact in facts.items()),
        "",
        "[range]",
        f"open_connections_max = {profile.range.open_connections_max}",
    ]
    if profile.noise is not None:
        lines += ["", "[noise]"]
        lines += [f"{key} = {_literal(entry)}" for key, entry in profile.noise if entry is not None]
    for table in TABLES:
        for name, cost in profile.cost.get(table, {}).items():
            lines += ["", f"[cost.{table}.{name}]"]
            lines += [f"{key} = {_literal(entry)}" for key, entry in cost]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    """Return a key of a table in TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _literal(name)


def _literal(value: object) -> str:
    """Return *value* in TOML."""
    if isinstance(value, tuple):
        return "[" + ", ".join(_literal(entry) for entry in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, str):
        # Strings of JSON and TOML are equal except for the character DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)
