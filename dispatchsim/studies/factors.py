"""What is varied: fields of a scenario and their values, as a grid or as a Latin hypercube.

    load.rate=1000/s,2000/s          these
    load.rate=1000/s..8000/s:8       eight, evenly spaced
    load.rate=1000/s..64000/s:7log   seven, with equal ratios
    load.rate=1000/s..8000/s         a range, sampled by a Latin hypercube
    server.mechanism=poll,epoll_level

Values are written as in a scenario file, without quotes. A point takes the profile that is given
for all points, or the one that it names.

Source: McKay, Beckman and Conover 1979 (Latin hypercube sampling).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias, get_args

from ..calibration.profiles.choosing import find_profile
from ..calibration.profiles.cost_profile import Profile
from ..calibration.running.preparation import warnings_of
from ..models.catalogue import named
from ..scenario.errors import ScenarioError, UserError, closest, nearest, unknown_key
from ..scenario.key_types import Bounded, Whole
from ..scenario.quantities import (
    RATE,
    SHARE,
    QuantityError,
    Written,
    kind_of_unit,
    read_number,
    shown,
    with_unit,
)
from ..scenario.scenario import Scenario
from ..scenario.sentences import keys_of_other_sections

Value: TypeAlias = str | int | float | bool

MECHANISM = "server.mechanism"
PROFILE = "machine.profile"
POINTS_MAX = 1_000_000
_VALUES_MAX = 100_000
_STEPS = re.compile(r"(.+)\.\.(.+):([0-9]+)(log)?")
_SET_BY = {
    "run.seed": "change run.seed in the scenario file; for more seeds, use --replications",
    "run.replications": "use --replications",
    "run.engine": "use --engine",
}
"""Fields that no study varies, and what to do instead."""
_FORMS = {"--set": "FIELD=VALUE such as load.rate=5000/s"}
_EXAMPLE = "load.rate=1000/s..8000/s:8"


class Range(NamedTuple):
    """From *low* to *high*, in *unit*; whole numbers if both ends are whole without a unit."""

    low: float
    high: float
    unit: str
    is_whole: bool

    def value(self, share: float, *, is_log: bool = False) -> Value:
        """Return the value at *share* of the way, as in a scenario file."""
        if is_log:
            number = self.low * math.pow(self.high / self.low, share)
        else:
            number = self.low + (self.high - self.low) * share
        if self.is_whole:
            return round(number)
        # Between the ends six digits are enough; the ends stay exact.
        number = {0.0: self.low, 1.0: self.high}.get(share, float(f"{number:.6g}"))
        kind = kind_of_unit(self.unit)
        if kind is None:
            return number
        if kind not in (RATE, SHARE):
            # A scenario takes whole nanoseconds, bytes and bits a second.
            number = float(
                round(Fraction(repr(number)) * kind.units[self.unit]) / kind.units[self.unit]
            )
        return with_unit(f"{Decimal(repr(number)):f}".removesuffix(".0"), self.unit)


_LISTS = {"machine.without"}
"""Fields whose one value may be names with commas between them."""


class Factor(NamedTuple):
    """A field of a scenario and its values: a list, or a range to sample."""

    field: str
    values: tuple[Value, ...] = ()
    range: Range | None = None

    @property
    def section(self) -> str:
        """The section of the field."""
        return self.field.split(".")[0]

    @property
    def key(self) -> str:
        """Its key there."""
        return self.field.split(".")[1]


Levels: TypeAlias = dict[str, Value]
"""The value of each varied field at a point."""


class Point(NamedTuple):
    """One scenario of a study, and its values of the varied fields."""

    levels: Levels
    scenario: Scenario


def read_factor(text: str, option: str = "--vary") -> Factor:
    """Return the factor in *text*, such as "load.rate=1000/s..8000/s:8".

    Raises
    ------
    UserError
        With the rule that it breaks; *option* is the option that it came from.
    """
    field, equals, said = text.partition("=")
    field, said = field.strip(), said.strip()
    if not equals or not said:
        form = _FORMS.get(option, f"FIELD=VALUES such as {_EXAMPLE}")
        raise UserError(f"{option}: must be {form}, got {shown(text)}")
    check_field(field, option)
    kinds = _kinds_of(field)
    steps = _STEPS.fullmatch(said)
    if ".." in said and ":" in said and not steps:
        n_steps = said.rpartition(":")[2]
        raise UserError(
            f"{option} {field}: must end in a number of steps such as :8 or :8log, "
            f"got {shown(':' + n_steps)}"
        )
    if steps:
        span, n = _range(steps[1], steps[2], f"{option} {field}", kinds), int(steps[3])
        if not 2 <= n <= _VALUES_MAX:
            raise UserError(f"{option} {field}: must have 2 to {_VALUES_MAX} steps, got {n}")
        if steps[4] and span.low <= 0:
            raise UserError(f"{option} {field}: a range in log steps must begin above 0")
        shares = (i / (n - 1) for i in range(n))
        values = dict.fromkeys(span.value(share, is_log=bool(steps[4])) for share in shares)
        return Factor(field, tuple(values))
    if ".." in said:
        low, high = said.split("..", 1)
        return Factor(field, range=_range(low, high, f"{option} {field}", kinds))
    is_one = option == "--set" and field in _LISTS
    words = [said] if is_one else said.split(",")
    values = {_value(each.strip(), kinds): None for each in words}
    if field == MECHANISM:
        values = {named(str(each)): None for each in values}
    if "" in values:
        raise UserError(f"{option} {field}: must be values separated by commas, got {shown(said)}")
    return Factor(field, tuple(values))


def read_factors(vary: Sequence[Factor | str]) -> list[Factor]:
    """Return the factors of a study, each as it is or as `read_factor` reads it."""
    return [read_factor(each, "vary") if isinstance(each, str) else each for each in vary]


def check_field(field: str, option: str) -> None:
    """Refuse a name that is no field of a scenario, or a field that studies set.

    Raises
    ------
    UserError
        With the nearest name; *option* is the option that it came from.
    """
    section, dot, key = field.partition(".")
    model = Scenario.model_fields.get(section)
    fields = getattr(model.annotation, "model_fields", None) if model else None
    if not dot or fields is None:
        sections = [
            name
            for name, each in Scenario.model_fields.items()
            if hasattr(each.annotation, "model_fields")
        ]
        if not dot:
            meant = _meant(keys_of_other_sections(field, (), Scenario))
            hint = meant or "such as load.rate"
            raise UserError(f"{option}: must name SECTION.KEY of a scenario, got {field} ({hint})")
        if model is not None:
            raise UserError(f"{option} {field}: cannot be set here; change it in the scenario file")
        hint = nearest(section, sections) or f" (sections: {', '.join(sections)})"
        raise UserError(f"{option} {field}: unknown section {shown(section)}{hint}")
    if key not in fields:
        others = keys_of_other_sections(key, fields, Scenario)
        if not others and (near := closest(key, fields)):
            others = [(section, near)]
        hint = f"unknown key ({_meant(others)})" if others else unknown_key(key, fields)
        raise UserError(f"{option} {field}: {hint}")
    if field in _SET_BY:
        raise UserError(f"{option} {field}: cannot be set here; {_SET_BY[field]}")


def _meant(keys: Sequence[tuple[str, str]]) -> str:
    """Return the question whether these *keys*, each with its section, were meant; "" for none."""
    named = [f'"{section}.{key}"' for section, key in keys]
    return f"did you mean {' or '.join(named)}?" if named else ""


def _check_readings(ends: Sequence[str], kinds: set[Any], what: str) -> None:
    """Refuse a range whose *ends* are ambiguous: "8K..64K" of a size.

    Raises
    ------
    UserError
        With both.
    """
    for kind in kinds:
        for end in ends if isinstance(kind, Bounded) else ():
            if kind.unit.has_two_readings(end.strip()):
                try:
                    kind.unit.parse(end.strip())
                except QuantityError as error:
                    raise UserError(f"{what}: {error}") from None


def _kinds_of(field: str) -> set[Any]:
    """Return the types and bounds that values of *field* may have."""
    section, _, key = field.partition(".")
    model: Any = Scenario.model_fields[section].annotation
    known = model.model_fields[key]
    return _kinds(known.annotation) | {
        each for each in known.metadata if isinstance(each, Bounded | Whole)
    }


def _kinds(annotation: Any) -> set[Any]:
    parts = get_args(annotation)
    return {annotation}.union(*map(_kinds, parts)) if parts else {annotation}


def _value(text: str, kinds: set[Any]) -> Value:
    """Return the value in *text*, for a field of these *kinds*."""
    if str in kinds and not kinds & {int, float}:
        return text  # even if it looks like a number
    if text in ("true", "false"):
        return text == "true"
    written = read_number(text)
    if written is None:
        return text
    if written.unit:
        # One spelling in tables if the key has this unit; others are refused as written.
        is_of_key = any(written.unit in e.unit.units for e in kinds if isinstance(e, Bounded))
        return with_unit(*written) if is_of_key else text
    if not text[-1].isdigit() and not any(isinstance(each, Whole) for each in kinds):
        return text  # "8K" is no count here: the scenario refuses it with its two readings
    return int(written.digits) if written.is_whole else float(written.digits)


def _range(low_text: str, high_text: str, what: str, kinds: set[Any]) -> Range:
    _check_readings((low_text, high_text), kinds, what)
    low, high = (read_number(text.strip()) for text in (low_text, high_text))
    if low is None or high is None:
        raise UserError(
            f"{what}: must be LOW..HIGH, two numbers with their unit, got "
            f"{shown(low_text + '..' + high_text)}"
        )
    unit = _common_unit(low, high, what)
    numbers = [_in_unit(end, unit) for end in (low, high)]
    if not numbers[0] < numbers[1]:
        raise UserError(f"{what}: the range must begin below its end, got {low_text}..{high_text}")
    return Range(numbers[0], numbers[1], unit, low.is_whole and high.is_whole)


def _common_unit(low: Written, high: Written, what: str) -> str:
    """Return the unit of a range: that of its end, or the smaller one where both have one.

    Raises
    ------
    UserError
        If the two are of different kinds, or the end has none.
    """
    if low.unit in ("", high.unit):
        return high.unit
    if not high.unit:
        meant = f"{with_unit(low.digits, low.unit)}..{with_unit(high.digits, low.unit)}"
        raise UserError(f"{what}: both ends must have their unit: write {meant}")
    kind = kind_of_unit(low.unit)
    if kind is None or kind is not kind_of_unit(high.unit):
        raise UserError(
            f"{what}: both ends must be the same kind of quantity, got {low.unit} and {high.unit}"
        )
    return min(low.unit, high.unit, key=kind.units.__getitem__)


def _in_unit(end: Written, unit: str) -> float:
    if end.unit in ("", unit):
        return float(end.digits)
    kind = kind_of_unit(unit)
    assert kind is not None  # only units of one kind differ
    return float(Fraction(end.digits) * kind.units[end.unit] / kind.units[unit])


def grid(factors: Sequence[Factor]) -> Iterator[Levels]:
    """Yield every combination, the last factor changing first.

    Raises
    ------
    UserError
        If a factor is a range, or if there are more than `POINTS_MAX` of them.
    """
    _check_distinct(factors)
    for factor in factors:
        if factor.range is not None:
            raise UserError(
                f"{factor.field}: a range without steps needs a number of samples "
                f"(--samples); or give steps as in {_EXAMPLE}"
            )
    n = math.prod(len(factor.values) for factor in factors)
    if n > POINTS_MAX:
        counts = " x ".join(f"{len(factor.values)} {factor.field}" for factor in factors)
        raise UserError(
            f"the grid has {n:,} points ({counts}), more than {POINTS_MAX:,}: give fewer steps, or "
            "ranges without steps and --samples N for a Latin hypercube of N points"
        )
    names = [factor.field for factor in factors]
    for values in itertools.product(*(factor.values for factor in factors)):
        yield dict(zip(names, values, strict=True))


def latin_hypercube(factors: Sequence[Factor], n: int, seed: int) -> Iterator[Levels]:
    """Yield *n* points, one in each of *n* equal slices of every factor, lists included.

    Raises
    ------
    UserError
        If *n* is not 1 to `POINTS_MAX`.
    """
    _check_distinct(factors)
    if not 1 <= n <= POINTS_MAX:
        raise UserError(f"samples: must be 1 to {POINTS_MAX:,}, got {n:,}")
    from scipy.stats import qmc  # takes its time to import

    shares = qmc.LatinHypercube(d=len(factors), rng=seed).random(n)
    for row in shares.tolist():
        yield {f.field: at(f, share) for f, share in zip(factors, row, strict=True)}


def design(factors: Sequence[Factor], samples: int | None, seed: int) -> Iterator[Levels]:
    """Return every combination, or *samples* of them.

    Raises
    ------
    UserError
        As `grid` and `latin_hypercube`.
    """
    return grid(factors) if samples is None else latin_hypercube(factors, samples, seed)


def check_profile(factors: Sequence[Factor], profile: object) -> None:
    """Refuse to vary the profile if one is given for all points.

    Raises
    ------
    UserError
        If so.
    """
    if profile is not None and any(factor.field == PROFILE for factor in factors):
        raise UserError(f"vary {PROFILE}: must be absent if one profile is given for all")


def at(factor: Factor, share: float) -> Value:
    """Return the value at *share* (0 to 1) of the way through a factor."""
    if factor.range is not None:
        return factor.range.value(share)
    return factor.values[min(int(share * len(factor.values)), len(factor.values) - 1)]


def _check_distinct(factors: Sequence[Factor]) -> None:
    names = [factor.field for factor in factors]
    if not names:
        raise UserError(f"vary: must name at least one field, such as {_EXAMPLE}")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"vary: each field must be named once, got {name} twice")


def points_of(scenario: Scenario, levels: Iterator[Levels]) -> list[Point]:
    """Return the scenario of each point, checked, without duplicates.

    Raises
    ------
    ScenarioError
        If one breaks a rule; the message names the point.
    """
    found: dict[str, Point] = {}
    for level in levels:
        sections: dict[str, dict[str, Value]] = {}
        for field, value in level.items():
            section, key = field.split(".")
            sections.setdefault(section, {})[key] = value
        try:
            point = Point(level, scenario.with_values(**sections))
        except ScenarioError as error:
            told = zip(error.mistakes, error.rules, strict=True)
            raise ScenarioError(*(_at_point(*each, level) for each in told)) from None
        found.setdefault(repr(sorted(level.items())), point)
    return list(found.values())


def _at_point(mistake: str, rule: str, levels: Levels) -> str:
    """Return *mistake* with the point; of a varied field only the *rule*, without the file."""
    if rule.partition(":")[0] not in levels:
        return f"{mistake} (at {words_of(levels)})"
    return f"vary {rule}" + (f" (at {words_of(levels)})" if len(levels) > 1 else "")


def words_of(levels: Mapping[str, Value]) -> str:
    """Return the levels of a point in words.

    >>> words_of({"load.rate": "2000/s", "idle.connections": 10})
    'load.rate = 2000/s, idle.connections = 10'
    """
    return ", ".join(f"{field} = {value}" for field, value in levels.items())


def profiles_of(points: Sequence[Point], given: Profile | None) -> list[Profile]:
    """Return the profile of each point; each file is read once.

    Raises
    ------
    UserError, ProfileError
        If a name has no profile, or its file breaks a rule.
    """
    names = dict.fromkeys(point.scenario.machine.profile for point in points)
    known = {name: given or find_profile(name) for name in names}
    return [known[point.scenario.machine.profile] for point in points]


def names_of(profiles: Sequence[Profile]) -> str:
    """Return the names of *profiles*, each once."""
    return ", ".join(dict.fromkeys(profile.name for profile in profiles))


def points_warnings(points: Sequence[Point], profiles: Sequence[Profile]) -> list[str]:
    """Return the warnings about the costs of *points*, each once."""
    return list(
        dict.fromkeys(
            warning
            for point, profile in zip(points, profiles, strict=True)
            for warning in warnings_of(point.scenario, profile)
        )
    )
