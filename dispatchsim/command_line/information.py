"""Commands that list: examples, mechanisms, profiles, keys and the schema of scenario files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..scenario.errors import UserError
from ..scenario.examples import example_scenarios, first_sentence
from ..sim.files.tables import DASH
from ..sim.files.whole_files import to_json, write_json
from .door import people
from .options import AsJson

if TYPE_CHECKING:  # each command imports what it lists, and nothing that the others need
    from ..calibration.profiles.cost_profile import Profile
    from ..scenario.key_texts import KeyText


def scenarios(
    *,
    copy: Annotated[
        Path | None, typer.Option(help="Copy all of them into this folder, to be changed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the example scenarios.

    dispatchsim scenarios --copy my-scenarios
    """
    examples = example_scenarios()
    if copy is not None:
        taken = [path.name for path in examples.values() if (copy / path.name).exists()]
        if taken:
            raise UserError(f"--copy: {copy} already has {taken[0]}; name a new folder")
        copy.mkdir(parents=True, exist_ok=True)
        for path in examples.values():
            shutil.copyfile(path, copy / path.name)
    _tell({name: first_sentence(path) for name, path in examples.items()}, as_json=as_json)


def mechanisms(*, as_json: AsJson = False) -> None:
    """List the dispatch mechanisms, with man pages and papers.

    dispatchsim mechanisms
    """
    from ..calibration.profiles.cost_profile import PRICES, shipped
    from ..models.catalogue import CATALOGUE
    from ..models.simulate import ENGINES

    # Every built-in mechanism is one source for both engines; the tests hold them to it.
    engines = [engine for engine in ENGINES if engine != "auto"]
    found = {name: {p.prices(name) for p in shipped().values()} for name in CATALOGUE}
    prices = {name: next((p for p in PRICES if p in found[name]), "none") for name in CATALOGUE}
    content = {
        name: {
            "about": entry.about,
            "aliases": list(entry.aliases),
            "source": entry.source,
            "engines": engines,
            "c_support": str(entry.c_support),
            "prices": prices[name],
        }
        for name, entry in CATALOGUE.items()
    }
    if as_json:
        typer.echo(to_json(content))
        return
    rows = [
        (
            _also(name, entry.aliases),
            entry.about.split(": ", 1)[-1],
            entry.source,
            str(entry.c_support),
            _COSTS_SHOWN[prices[name]],
        )
        for name, entry in CATALOGUE.items()
    ]
    _print("mechanism (alias) | what it does | source | C server runs on | costs", rows)
    people().print("costs: the best of any shipped profile (`dispatchsim profiles`)")
    people().print(f"engines of each: {', '.join(engines)}")


def _also(name: str, aliases: Sequence[str]) -> str:
    """Return a mechanism's name and its aliases."""
    return f"{name} ({', '.join(aliases)})" if aliases else name


def programs(*, as_json: AsJson = False) -> None:
    """List modelled server programs, such as thttpd.

    dispatchsim programs
    """
    from ..scenario.declared import written
    from ..scenario.programs import PROGRAMS

    content = {
        name: {"about": program.about, "source": program.source, "keys": dict(program.keys)}
        for name, program in PROGRAMS.items()
    }
    if as_json:
        typer.echo(to_json(content))
        return
    rows = [
        (
            name,
            program.about,
            program.source,
            ", ".join(f"{key} = {written(value)}" for key, value in program.keys.items()),
        )
        for name, program in PROGRAMS.items()
    ]
    _print("program | what it does | source | keys of [server]", rows)
    people().print('in a scenario, `program = "phhttpd"` replaces these keys; others may be added')


def profiles(*, as_json: AsJson = False) -> None:
    """List measured machines and their forecast errors.

    dispatchsim profiles
    """
    from ..calibration.profiles.choosing import default_choice, find_profile_path
    from ..calibration.profiles.cost_profile import Profile, period_profiles, shipped

    measured = {name: _of_profile(profile) for name, profile in shipped().items()}
    if not measured:
        raise UserError(
            "profiles: must be shipped with this version, got none; "
            "`dispatchsim calibrate machine FOLDER` makes one"
        )
    period = {name: _of_profile(Profile.read(path)) for name, path in period_profiles().items()}
    if as_json:
        typer.echo(to_json(measured | period))
        return
    name, why = default_choice()
    find_profile_path(None)  # DISPATCHSIM_PROFILE without a profile is an error here, too
    _print_matrix("measured machines", measured)
    people().print(
        f"borrowed: costs of similar calls of the same machine; {DASH}: none\n"
        f"the default profile: {name} ({why})\n",
        markup=False,
    )
    _print_machines(measured)
    people().print(
        "errors: medians of absolute errors at points held out from the fit; throughput of a "
        "saturated server; p50 and p99 up to 80% of the capacity\n"
        "x3: three times the measured value; /2.7: the measured value divided by 2.7\n"
        "knee: the load at which p99 exceeds 20 ms; noisy: other programs disturbed the runs\n",
        markup=False,
    )
    for each in measured.values():
        if each["missing_effects"]:
            people().print(each["missing_effects"], markup=False)
    if any(each["missing_effects"] for each in measured.values()):
        people().print("`dispatchsim fields machine.without` explains these effects", markup=False)
    people().print()
    _print_matrix("machines of papers", period)


_FACTS = ("about", "cpu_model", "cpu_family", "kernel", "date", "noisy")
_COSTS_SHOWN = {"measured": "measured", "lent": "borrowed", "none": DASH}


def _of_profile(profile: Profile) -> dict[str, Any]:
    """Return the machine of a profile, its costs of each mechanism, and its forecast errors."""
    from ..calibration.profiles.published_errors import read_errors
    from ..models.catalogue import CATALOGUE

    errors = read_errors(profile.name)
    return {
        "machine": {key: profile.machine[key] for key in _FACTS if key in profile.machine},
        "open_connections_max": profile.range.open_connections_max,
        "reconstructed": bool(profile.machine.get("reconstructed", False)),
        "mechanisms": {name: profile.prices(name) for name in CATALOGUE},
        "errors": errors._asdict() if errors else None,
        "missing_effects": profile.missing_effects(),
    }


def _print_matrix(title: str, known: dict[str, dict[str, Any]]) -> None:
    """Print the costs of each mechanism on each machine: one row per mechanism."""
    names = " | ".join([title, *(name.replace("-", " ") for name in known)])
    first = next(iter(known.values()))
    _print(
        names,
        [
            (mechanism, *(_costs_shown(each, mechanism) for each in known.values()))
            for mechanism in first["mechanisms"]
        ],
    )


def _costs_shown(machine: dict[str, Any], mechanism: str) -> str:
    prices = machine["mechanisms"][mechanism]
    if prices == "measured" and machine["reconstructed"]:
        return "reconstructed"
    return _COSTS_SHOWN[prices]


def _print_machines(known: dict[str, dict[str, Any]]) -> None:
    """Print each machine with the published errors of its forecasts."""
    from ..validation.scoring.value_verdicts import unsigned

    rows = [
        (
            f"{name}{' (noisy)' if 'noisy' in each['machine'] else ''}",
            str(each["machine"].get("kernel", DASH)),
            str(each["machine"].get("date", DASH))[:10],
            str(each["open_connections_max"]),
            *(
                unsigned((each["errors"] or {}).get(key))
                for key in ("capacity", "p50", "p99", "knee")
            ),
        )
        for name, each in known.items()
    ]
    _print(
        "machine | kernel | date | max connections | "
        "throughput error | p50 error | p99 error | knee error",
        rows,
    )


def schema(
    *,
    output: Annotated[Path | None, typer.Option(help="Write it to this file.")] = None,
) -> None:
    """Print the JSON Schema of scenario files.

    dispatchsim schema --output scenario.schema.json

    Editors use it to complete and check scenario files.
    """
    from ..scenario.scenario import scenario_schema

    if output is not None and output.is_dir():
        raise UserError(f"--output: must be a file, got the folder {output}")
    content = scenario_schema()
    if output is None:
        typer.echo(to_json(content))
    else:
        write_json(output, content)


def fields(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="A section, such as load, or a key, such as load.rate."
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the keys of scenario files.

    dispatchsim fields load.rate

    Each key is listed with its unit or choices, its default and its meaning.
    """
    from ..scenario.key_texts import KeyText, find_text, section_texts

    found = None if name is None else find_text(name)
    if isinstance(found, KeyText):
        if as_json:
            typer.echo(to_json(_of_key(found)))
            return
        for line in (
            f"{found.field}: {found.takes()}",
            f"default: {found.begins_as}",
            found.about,
        ):
            people().print(line, markup=False)
        return
    sections = section_texts().values() if found is None else [found]
    if as_json:
        typer.echo(to_json({key.field: _of_key(key) for each in sections for key in each.keys}))
        return
    for each in sections:
        people().print(f"{each.heading}: {each.about.splitlines()[0]}", markup=False)
        rows = [(key.field, _short(key), key.begins_as, key.line) for key in each.keys]
        _print("key | takes | default | meaning", rows)
    people().print("a key in full: `dispatchsim fields load.rate`", markup=False)


_CHOICES_SHOWN = 8


def _short(key: KeyText) -> str:
    """Return what a key takes, without a long list of choices."""
    from ..models.catalogue import CATALOGUE

    n = len(key.choices)
    if n > _CHOICES_SHOWN:
        mechanisms = [choice for choice in key.choices if json.loads(choice) in CATALOGUE]
        if mechanisms:
            return f"one of {len(mechanisms)} mechanisms, or an alias"
        return f"one of {n} names"
    return key.takes() if n else f"{key.kind} {key.bounds}".strip()


def _of_key(key: KeyText) -> dict[str, Any]:
    return {
        "takes": key.kind,
        "bounds": key.bounds,
        "units": list(key.units),
        "choices": [json.loads(choice) for choice in key.choices],
        "default": json.loads(key.default) if key.default else None,
        "must_be_given": key.must_be_given,
        "about": key.about,
    }


def _tell(rows: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        typer.echo(to_json(rows))
        return
    _print(" | ", list(rows.items()))


def _print(headings: str, rows: Sequence[tuple[str, ...]]) -> None:
    from ..sim.files.tables import Table, rich_table

    names = headings.split(" | ")
    people().print(rich_table(Table.of_cells("", names, rows, n_words=len(names))))
