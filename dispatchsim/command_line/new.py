"""The command `new`: a scenario of one's own from at most eight questions."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ..scenario.errors import UserError
from ..scenario.presets import PRESETS, QUESTIONS, Costs, Preset, filled, mistakes_of, preset_named
from ..sim.files.whole_files import write_whole
from .door import Stopped, people
from .help_page import RARE


def _answer(option: str, panel: str | None = None) -> object:
    return typer.Option(f"--{option}", help=f"{QUESTIONS[option].text}.", rich_help_panel=panel)


def new(
    preset: Annotated[
        str | None, typer.Argument(metavar="PRESET", help=f"One of {', '.join(PRESETS)}.")
    ] = None,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="The scenario file. Default: PRESET.toml."),
    ] = None,
    *,
    connections: Annotated[str | None, _answer("connections")] = None,
    rate: Annotated[str | None, _answer("rate")] = None,
    reply_size: Annotated[str | None, _answer("reply-size")] = None,
    request_cpu: Annotated[str | None, _answer("request-cpu")] = None,
    threads: Annotated[str | None, _answer("threads")] = None,
    backend_delay: Annotated[str | None, _answer("backend-delay", RARE)] = None,
    backend_limit: Annotated[str | None, _answer("backend-limit", RARE)] = None,
    backend_connections: Annotated[str | None, _answer("backend-connections", RARE)] = None,
    crowd_factor: Annotated[str | None, _answer("crowd-factor", RARE)] = None,
    crowd_length: Annotated[str | None, _answer("crowd-length", RARE)] = None,
    cpus: Annotated[str | None, _answer("cpus")] = None,
    link: Annotated[str | None, _answer("link")] = None,
    p99: Annotated[str | None, _answer("p99")] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Ask nothing; take the example's values.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
) -> None:
    """Write a scenario of your own from a few questions.

    dispatchsim new websocket_hub hub.toml --defaults

    The terminal asks for options that are not given. The file explains each key, and marks values
    that are examples. Its profile is the one that DISPATCHSIM_PROFILE names. If that is not set, it
    is the profile of your CPU. If your CPU has none, it is the profile with the most mechanisms.
    """
    options = (
        *(connections, rate, reply_size, request_cpu, threads),
        *(backend_delay, backend_limit, backend_connections),
        *(crowd_factor, crowd_length, cpus, link, p99),
    )
    given = {name: text for name, text in zip(QUESTIONS, options, strict=True) if text is not None}
    asks = has_terminal() and not defaults
    try:
        chosen = _preset(preset, asks=asks)
        where = Path(f"{chosen.name}.toml") if path is None else path
        mistakes = [*_of_file(where, force=force), *_of_options(chosen, given)]
        answers = {name: text for name, text in given.items() if name in chosen.options}
        if not asks and not defaults:
            mistakes += _missing(chosen, answers)
        mistakes += mistakes_of(chosen, answers)
        if mistakes:
            raise UserError(*mistakes)
        if asks:
            answers |= _asked(chosen, answers)
    except typer.Abort:
        raise Stopped("nothing was written") from None
    content = filled(chosen, answers, str(where), _costs_of(chosen, where))
    if mistakes := _of_file(where, force=force):  # somebody may have written it meanwhile
        raise UserError(*mistakes)
    write_whole(where, content.text)
    if content.warning:
        people().print(f"warning: {content.warning}", markup=False, soft_wrap=True)
    # A scenario describes a server and its load; a bound belongs to a question about it.
    people().print(
        f"{where} is written. The file does not hold the bound on p99; give the bound to "
        "`capacity`. Next:",
        markup=False,
        soft_wrap=True,
    )
    for command in (
        *chosen.commands,
        content.command,
        f"dispatchsim run {shlex.quote(str(where))}",
    ):
        people().print(f"    {command}", markup=False, soft_wrap=True)


def _costs_of(preset: Preset, path: Path) -> Costs | None:
    """Return the default profile as a scenario in *path* names it; None if it lacks the costs."""
    from ..calibration.profiles.choosing import default_choice, find_profile

    choice = default_choice()
    if find_profile(None).prices(preset.mechanism) == "none":
        return None
    is_file = Path(choice.name).is_file()
    name = os.path.relpath(choice.name, path.parent) if is_file else choice.name
    return Costs(name, choice.why)


def has_terminal() -> bool:
    """Return whether there is a terminal to ask questions in."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _preset(name: str | None, *, asks: bool) -> Preset:
    """Return the preset of that name, or the one that is chosen."""
    if name is not None:
        return preset_named(name)
    if not asks:
        raise UserError(
            f"PRESET: must be one of {', '.join(PRESETS)}, got none "
            "(`dispatchsim scenarios` describes them)"
        )
    presets = list(PRESETS.values())
    for number, each in enumerate(presets, start=1):
        typer.echo(f"  {number}  {each.name:<16}{each.about}", err=True)
    while True:
        answer = str(typer.prompt("What is the server? Its number or name", err=True)).strip()
        if answer.isdecimal() and 1 <= int(answer) <= len(presets):
            return presets[int(answer) - 1]
        try:
            return preset_named(answer)
        except UserError as error:
            typer.echo(str(error), err=True)


def _of_file(path: Path, *, force: bool) -> list[str]:
    """Return why nothing can be written to *path*."""
    if not str(path).isprintable():
        return [f"FILE: must be of printable characters, got {str(path)!r}"]
    if path.is_dir() or not path.parent.is_dir():
        return [f"FILE: must be a file in an existing folder, got {path}"]
    if path.exists() and not force:
        return [f"FILE: must be a new file, got {path}, which exists (--force overwrites it)"]
    return []


def _of_options(preset: Preset, given: Mapping[str, str]) -> list[str]:
    return [
        f"--{name}: {preset.name} does not ask for it; leave it out"
        for name in given
        if name not in preset.options
    ]


def _missing(preset: Preset, answers: Mapping[str, str]) -> list[str]:
    """Return which answers are missing where there is no terminal."""
    return [
        f"--{question.option}: must be given, as there is no terminal to ask: "
        f"--{question.option} {shlex.quote(preset.suggested(question, answers))}, or --defaults "
        "for the example's values"
        for question in preset.questions
        if question.option not in answers
    ]


def _asked(preset: Preset, known: Mapping[str, str]) -> dict[str, str]:
    """Return the answers to the questions that *known* ones leave, each valid by itself."""
    found: dict[str, str] = {}
    for question in preset.questions:
        if question.option in known:
            continue
        example = preset.suggested(question, {**known, **found})
        while True:
            answer = str(typer.prompt(question.text, default=example, err=True)).strip()
            begin = f"--{question.option}: "
            wrong = mistakes_of(preset, {question.option: answer})
            rules = [each.removeprefix(begin) for each in wrong if each.startswith(begin)]
            if not rules:
                break
            typer.echo("\n".join(rules), err=True)
        if answer != example:
            found[question.option] = answer
    return found
