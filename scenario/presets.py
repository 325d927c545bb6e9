"""Presets of `dispatchsim new`: example scenarios, and the questions that adapt them.

    scenario/shipped/NAME.toml ─► questions ─► answers ─► the same file with other values

A preset is a complete scenario with comments. An answer replaces the value of a key and keeps its
comment. "(example)" marks values without an answer, "(example: 5 times the mean)" values that
follow from an answer. There are at most eight questions, including the one for the preset.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from ..sim.state.units import MILLISECOND_NS, SECOND_NS
from .declared import written
from .errors import ScenarioError, UserError, one_of
from .examples import example_scenarios
from .quantities import DURATION, RATE, QuantityError, Unit, shown
from .scenario import Scenario

_WINDOW_BY_BOUND = 10
"""The shortest window that `capacity` accepts, in bounds on p99."""
_REQUESTS_MIN = 10_000
"""Requests in a window, so that 100 lie above p99; fewer if they take more than a minute.

A queue that grows without bound needs as many to become visible: with 1,300 requests in the window,
the capacity of a backend of 20 places came out 10% higher than with 25,000.
"""
_LONGEST_NS = Fraction(60 * SECOND_NS)
_CROWDS_MIN = 4
"""Time from the start of a crowd to the end of the run, in crowd lengths: it shows the recovery."""
_NEW = "new"
"""Start of the messages about a scenario that has no file yet."""

_TRY = "# Try: "
_MARK = "(example)"
_KEY_LINE = re.compile(r'(\w+) = (".*?"|[^"#]*?) *(#.*)?')
_COMMENT_AT = 32
_GROUPED = 1_000
_SPREAD_KEYS = (("server", "request_cpu"), ("backend", "delay"))
"""Sections and keys of means with a distribution."""
_BOUND_BY_SLOW = 2
"""Least default of the bound on p99, in 99th percentiles of the time that a request takes alone: a
server without other load meets it."""
_ROUND = (1, 2, 5, 10)
_P99_BY_MEAN = Fraction(math.log(100))
"""Ratio of the 99th percentile to the mean of an exponential distribution."""
_DERIVED = {
    "run.duration",
    *(f"{section}.{key}_{of}" for section, key in _SPREAD_KEYS for of in ("spread", "p99")),
}
"""Keys that follow from answers."""


class Question(NamedTuple):
    """A question, and the keys of the scenario whose value is the answer.

    The question without keys asks for the bound on p99, which determines the length of a run.
    """

    option: str
    text: str
    fields: tuple[str, ...] = ()


P99 = Question("p99", "Bound on the 99th percentile of response times")
_CPU_TEXT = "CPU time of your application for a request"
_DELAY_TEXT = "Mean time of the backend for a request, both network trips included"
_LIMIT_TEXT = "Requests that the backend serves at once"
_TO_BACKEND_TEXT = "Connections that the server keeps open to the backend"
_FACTOR_TEXT = "Rate in the crowd, as a multiple of the usual rate"
QUESTIONS = {
    question.option: question
    for question in (
        Question("connections", "Connections that clients keep open", ("load.connections",)),
        Question("rate", "Requests a second today, all clients together", ("load.rate",)),
        Question("reply-size", "Size of a reply", ("load.reply_size",)),
        Question("request-cpu", _CPU_TEXT, ("server.request_cpu",)),
        Question("threads", "Threads of the pool", ("server.workers",)),
        Question("backend-delay", _DELAY_TEXT, ("backend.delay",)),
        Question("backend-limit", _LIMIT_TEXT, ("backend.limit",)),
        Question("backend-connections", _TO_BACKEND_TEXT, ("backend.connections",)),
        Question("crowd-factor", _FACTOR_TEXT, ("load.crowd_factor",)),
        Question("crowd-length", "Length of the crowd", ("load.crowd_length",)),
        Question("cpus", "CPUs of the server", ("machine.cpus",)),
        Question("link", "Bandwidth of the link", ("network.up", "network.down")),
        P99,
    )
}
"""All questions by the name of their option, in order."""


class Preset(NamedTuple):
    """An example that answers turn into a scenario.

    Attributes
    ----------
    name:
        Name of the example.
    about:
        The kind of server.
    options:
        The options of its questions.
    """

    name: str
    about: str
    options: tuple[str, ...]

    @property
    def mechanism(self) -> str:
        """The mechanism of the example."""
        return str(tomllib.loads(self.text)["server"]["mechanism"])

    @property
    def commands(self) -> list[str]:
        """The commands in the head of the file, to run first."""
        return re.findall(r"^#   (dispatchsim .*)$", self.text, re.M)

    @property
    def questions(self) -> list[Question]:
        """The questions, in order."""
        return [question for name, question in QUESTIONS.items() if name in self.options]

    @property
    def text(self) -> str:
        """The example's file."""
        return example_scenarios()[self.name].read_text(encoding="utf-8")

    def example(self, question: Question) -> str:
        """Return the example's answer."""
        if question is P99:
            match = re.search(r' --p99 "(.*)"$', command_in(self.text) or "")
            assert match, "the head of each preset has a line 'Try: ...' with --p99"
            return match[1]
        section, key = question.fields[0].split(".")
        return str(tomllib.loads(self.text)[section][key])

    def suggested(self, question: Question, answers: Mapping[str, str]) -> str:
        """Return the example's answer, or a bound on p99 that *answers* can meet."""
        if question is P99:
            return _bound_on_p99(self, _content(self, answers))
        return self.example(question)


def command_in(text: str) -> str | None:
    """Return the command in the head of the *text* of a file that `new` wrote, or None."""
    match = re.search(rf"^{_TRY}(.*)$", text, re.M)
    return match and match[1]


_OF_ALL = ("rate", "reply-size", "request-cpu", "p99")
_OF_BACKEND = ("backend-delay", "backend-limit", "backend-connections")
PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            "websocket_hub",
            "a websocket hub: many connections that stay open",
            (*_OF_ALL, "connections", "cpus", "link"),
        ),
        Preset(
            "api_keep_alive",
            "an API behind keep-alive: many requests on each connection",
            (*_OF_ALL, "connections", "cpus", "link"),
        ),
        Preset(
            "static_files",
            "static files: a new connection for each file",
            (*_OF_ALL, "cpus", "link"),
        ),
        Preset(
            "thread_pool",
            "a thread pool: each thread serves one connection at a time",
            (*_OF_ALL, "threads", "cpus", "link"),
        ),
        Preset(
            "reverse_proxy",
            "a reverse proxy, or a service with a database: requests wait for a backend",
            ("rate", "request-cpu", *_OF_BACKEND, "cpus", "p99"),
        ),
        Preset(
            "cache",
            "a cache such as Redis: one event loop, small replies",
            (*_OF_ALL, "connections", "link"),
        ),
        Preset(
            "flash_crowd",
            "a flash crowd: a multiple of the usual rate for a short time",
            (*_OF_ALL, "crowd-factor", "crowd-length", "cpus"),
        ),
        Preset(
            "own_server",
            "a server of your own: commands that calibrate it, and a scenario for its profile",
            ("connections", "rate", "reply-size", "cpus", "link", "p99"),
        ),
    )
}
"""All presets by name."""


def preset_named(name: str) -> Preset:
    """Return the preset of that name, in which hyphens may stand for underscores.

    Raises
    ------
    UserError
        If there is none.
    """
    plain = name.strip().replace("-", "_")
    if plain not in PRESETS:
        raise UserError(f"PRESET: {one_of(plain, PRESETS)}, got {shown(name)}")
    return PRESETS[plain]


class Filled(NamedTuple):
    """A new scenario: its file's text, the command for its capacity, and a warning or ""."""

    text: str
    command: str
    warning: str


def mistakes_of(preset: Preset, answers: Mapping[str, str]) -> list[str]:
    """Return the mistakes in *answers*, by option: "--rate: must be ..., got ..."."""
    try:
        _answered(preset, answers)
    except UserError as error:
        return error.mistakes
    return []


class Costs(NamedTuple):
    """The profile that a new scenario names, and the reason."""

    profile: str
    why: str


def filled(
    preset: Preset, answers: Mapping[str, str], path: str, costs: Costs | None = None
) -> Filled:
    """Return the file of *preset* with *answers*, by option, for the path *path*.

    It names the profile of *costs*, or else the preset's profile.

    Raises
    ------
    UserError
        With all mistakes: option, rule and value.
    """
    answered = _answered(preset, answers)
    command = f'dispatchsim capacity {shlex.quote(path)} --p99 "{answered.p99}"'
    fields = {field for name in answers for field in QUESTIONS[name].fields}
    lines, section = [], ""
    for line in preset.text.splitlines():
        if match := re.fullmatch(r"\[(\w+)\]", line):
            section = match[1]
        match = _KEY_LINE.fullmatch(line)
        field = f"{section}.{match[1]}" if match else ""
        if costs is not None and field == "machine.profile":
            lines.append(f"profile = {json.dumps(costs.profile)}   # {costs.why}")
        elif match and field in fields | _DERIVED:
            if field in answered.values:
                comment = _without_mark(match[3]) if field in fields else match[3]
                if field.removesuffix("_p99") in fields - {field}:
                    comment = f"{comment} (example: {_times_the_mean(answered.values, field)})"
                value = answered.values[field]
                lines.append(f"{match[1]} = {value}".ljust(_COMMENT_AT) + (comment or ""))
        else:
            lines.append(f"{_TRY}{command}" if line.startswith(_TRY) else line)
    text = "".join(f"{line.rstrip()}\n" for line in lines)
    return Filled(text, command, answered.warning)


class _Answered(NamedTuple):
    """Values by field in a file's spelling, the bound on p99, and a warning if no load meets it."""

    values: dict[str, str]
    p99: str
    warning: str


def _answered(preset: Preset, answers: Mapping[str, str]) -> _Answered:
    """Return the values of the scenario of *preset* with *answers*.

    Raises
    ------
    UserError
        With all mistakes: option, rule and value.
    """
    content = _content(preset, answers)
    mistakes: list[str] = []
    p99 = answers.get(P99.option, _bound_on_p99(preset, content))
    bound_ns = 0
    try:
        bound_ns = round(DURATION.parse(p99))
        if bound_ns == 0:
            raise QuantityError(f"must be above 0, got {shown(p99)}")
    except QuantityError as error:
        mistakes.append(f"--{P99.option}: {error}")
    _lengthen(content, bound_ns)
    try:
        scenario = Scenario.check(content, _NEW)
    except ScenarioError as error:
        found = _by_option(error.mistakes)
        if P99.option in answers and bound_ns and _is_valid_without_bound(preset, answers):
            found = [
                f"--{P99.option}: is too large: a run lasts ten times the bound, got {shown(p99)} "
                f"({'; '.join(found)})"
            ]
        raise UserError(*found, *mistakes) from None
    if mistakes:
        raise UserError(*mistakes)
    values = {
        f"{section}.{key}": _literal(value)
        for section, keys in scenario.to_dict().items()
        for key, value in keys.items()
    }
    return _Answered(values, DURATION.format(bound_ns), _warning(content, bound_ns))


def _is_valid_without_bound(preset: Preset, answers: Mapping[str, str]) -> bool:
    """Return whether *answers* are valid in a run that no bound makes longer."""
    content = _content(preset, answers)
    _lengthen(content, 0)
    try:
        Scenario.check(content, _NEW)
    except ScenarioError:
        return False
    return True


def _warning(content: Mapping[str, Mapping[str, Any]], bound_ns: int) -> str:
    """Return a warning about a time that exceeds the bound alone, or an empty string."""
    for section, key in _SPREAD_KEYS:
        slow_ns = _parsed(DURATION, content.get(section, {}).get(f"{key}_p99"))
        if slow_ns is not None and slow_ns >= bound_ns:
            return (
                f"{section}.{key}_p99 ({DURATION.format(slow_ns)}) exceeds the bound on p99 "
                f"({DURATION.format(bound_ns)}): no load will meet it"
            )
    return ""


def _content(preset: Preset, answers: Mapping[str, str]) -> dict[str, Any]:
    """Return the sections of *preset* with *answers* and the spreads that follow."""
    content = tomllib.loads(preset.text)
    for name, text in answers.items():
        for field in QUESTIONS[name].fields:
            section, key = field.split(".")
            content[section][key] = _typed(text)
    for section, key in _SPREAD_KEYS:
        if section in content:
            _spread_alike(content[section], preset, section, key)
    return content


def _bound_on_p99(preset: Preset, content: dict[str, Any]) -> str:
    """Return the example's bound, or a larger round bound that a single request meets."""
    slow_ns = max(_slow_ns(content.get(section, {}), key) for section, key in _SPREAD_KEYS)
    least_ns, example = math.ceil(_BOUND_BY_SLOW * slow_ns), preset.example(P99)
    if least_ns <= DURATION.parse(example):
        return example
    power = 10 ** (len(str(least_ns)) - 1)
    return DURATION.format(next(n * power for n in _ROUND if n * power >= least_ns))


def _slow_ns(values: Mapping[str, Any], key: str) -> Fraction:
    """Return the 99th percentile of the distribution with the mean *key*; 0 if it is no time."""
    mean_ns = _parsed(DURATION, values.get(key)) or Fraction(0)
    if values.get(f"{key}_spread") == "exponential":
        return _P99_BY_MEAN * mean_ns
    return _parsed(DURATION, values.get(f"{key}_p99")) or mean_ns


def _times_the_mean(values: Mapping[str, str], field: str) -> str:
    p99, mean = (
        DURATION.parse(json.loads(values[each])) for each in (field, field.removesuffix("_p99"))
    )
    return f"{float(p99 / mean):g} times the mean"


def _spread_alike(values: dict[str, Any], preset: Preset, section: str, key: str) -> None:
    """Keep the example's ratio of 99th percentile to mean; a mean of 0 has no spread."""
    example, p99 = tomllib.loads(preset.text)[section], f"{key}_p99"
    mean_ns, before_ns = (_parsed(DURATION, each.get(key)) for each in (values, example))
    if mean_ns == 0:
        values.pop(f"{key}_spread", None)
        values.pop(p99, None)
    elif mean_ns and before_ns and p99 in values:
        ratio = DURATION.parse(example[p99]) / before_ns
        values[p99] = DURATION.format(round(mean_ns * ratio))


def _lengthen(content: dict[str, Any], bound_ns: int) -> None:
    """Make the run long enough for its bound, its requests and its crowd."""
    run, load = content["run"], content["load"]
    warm_up_ns = DURATION.parse(run["warm_up"])
    ends_ns = [DURATION.parse(run["duration"]), warm_up_ns + _WINDOW_BY_BOUND * bound_ns]
    if rate_per_s := _parsed(RATE, load["rate"]):
        ends_ns.append(warm_up_ns + min(_REQUESTS_MIN * SECOND_NS / rate_per_s, _LONGEST_NS))
    if crowd_ns := _parsed(DURATION, load.get("crowd_length")):
        ends_ns.append(DURATION.parse(load["crowd_start"]) + _CROWDS_MIN * crowd_ns)
    n_ms = math.ceil(max(ends_ns) / MILLISECOND_NS)
    run["duration"] = DURATION.format(n_ms * MILLISECOND_NS)


def _parsed(unit: Unit, text: object) -> Fraction | None:
    """Return a quantity, or None: the error is reported with its key."""
    try:
        return unit.parse(text)
    except QuantityError:
        return None


def _by_option(mistakes: Sequence[str]) -> list[str]:
    """Return *mistakes* with options in place of their keys."""
    options = {field: name for name, question in QUESTIONS.items() for field in question.fields}
    found = []
    for mistake in mistakes:
        field, rule = mistake.removeprefix(f"{_NEW}: ").split(": ", 1)
        found.append(f"--{options[field]}: {rule}" if field in options else f"{field}: {rule}")
    return list(dict.fromkeys(found))


def _typed(text: str) -> int | float | str:
    """Return an answer as a file has it: a number if possible, otherwise text."""
    plain = text.strip()
    for kind in (int, float):
        if re.match("[0-9]", plain):
            with contextlib.suppress(ValueError):
                return kind(plain)
    return plain


def _literal(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return written(value)
    return f"{value:_}" if float(value).is_integer() and value >= _GROUPED else f"{value:g}"


def _without_mark(comment: str | None) -> str:
    """Return a comment without the mark of an example; "" if nothing is left."""
    left = (comment or "").removesuffix(_MARK).rstrip()
    return "" if left == "#" else left
