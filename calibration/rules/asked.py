"""The kernel's rules as data: questions to Linux, and its answers.

    catalogue.toml ──► Rule          calibration/c/rules ──► one JSON line a rule ──► Answer
                                     here, or in a guest            │
                                     linux-<release>.json ◄── keep ─┘ for machines that cannot ask

A question that a kernel forbids (no namespaces, io_uring off) is no failure: the rule is "not
asked", with the reason, and never counts as agreement.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import signal
import subprocess
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...sim.files.whole_files import write_whole
from ..records.kernel_files import read_kept, release_of, write_kept
from ..testbed.c_build import SOURCE_FOLDER, build, source_hash
from ..testbed.machine_facts import machine_facts, now_text

FOLDER = Path(__file__).parent
_FORMAT = "dispatchsim-rules/1"
_SECONDS_MAX = 300  # the slowest rules take 80 s, all at the same time
_PATIENCE_S, _TIDY_S = 5, 0.2  # the time for its processes to end by themselves
_FACTS = ("kernel", "timer_hz", "cpu_model", "cpu_count")
Value = bool | int | str | list[Any]


class Rule(NamedTuple):
    """A question to the kernel: `source` names the lines of Linux, or the page, that decide.

    `answer` names the parts of an answer. With `timing` it depends on times.
    """

    name: str
    family: str
    question: str
    source: str
    answer: str
    timing: bool = False


class Answer(NamedTuple):
    """The kernel's answer to a rule, or why the rule was not asked."""

    value: Value | None = None
    not_asked: str = ""


Answers = dict[str, Answer]


@functools.cache
def catalogue() -> Mapping[str, Rule]:
    """Return all rules by name, family by family."""
    families = tomllib.loads((FOLDER / "catalogue.toml").read_text(encoding="utf-8"))
    return {
        name: Rule(name, family, **words)
        for family, rules in families.items()
        for name, words in rules.items()
    }


def selected(texts: Iterable[str]) -> list[str]:
    """Return the rules whose name or family contains one of *texts*.

    A text that is a whole name or a whole family selects only that.

    Raises
    ------
    LookupError
        For the first text that selects none.

    >>> selected(["epoll_oneshot", "order_of"])
    ['epoll_oneshot', 'signal_order_of_numbers']
    """
    found = set[str]()
    for text in texts:
        part = text.casefold()
        named = {
            name: (name.casefold(), rule.family.casefold()) for name, rule in catalogue().items()
        }
        rules = [name for name, names in named.items() if part in names] or [
            name for name, names in named.items() if any(part in each for each in names)
        ]
        if not part or not rules:
            raise LookupError(text)
        found.update(rules)
    return [name for name in catalogue() if name in found]


def read_answers(lines: Iterable[str]) -> Answers:
    """Return the answers in the program's output.

    Raises
    ------
    ValueError
        For a line that is not an answer to a rule of the catalogue.
    """
    answers = {}
    for line in lines:
        try:
            found = json.loads(line)
            name = found.pop("rule")
            if name not in catalogue() or set(found) not in ({"answer"}, {"not_asked"}):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"no answer to a rule of the catalogue: {line.strip()!r}") from None
        answers[name] = Answer(found.get("answer"), found.get("not_asked", ""))
    return answers


def ask(*, only: Sequence[str] = (), quick: bool = False, program: Path | None = None) -> Answers:
    """Return the running kernel's answers to the rules or families *only*; if empty, to all.

    A *quick* round leaves out the rules that take 4 s or longer. A whole round takes 80 s.
    *program* asks the questions; None: the library's program, built if necessary.

    Raises
    ------
    BuildError
        If the program cannot be built.
    ValueError
        If the program fails or does not end, or *only* names neither a rule nor a family.
    """
    path = program or Path(build().path("rules"))
    options = [*_naming(only), *(("--quick",) if quick else ())]
    if quick and only and set(only) <= _waiting(path):
        raise ValueError(f"--quick leaves out {', '.join(only)}, which takes 4 s or longer")
    code, output, words = _finished([str(path), *options], _SECONDS_MAX)
    if code != 0:
        raise ValueError(words.strip() or "the program that asks failed and printed no reason")
    return read_answers(output.splitlines())


def _naming(only: Sequence[str]) -> tuple[str, ...]:
    return ("--only", ",".join(only)) if only else ()


def _waiting(program: Path) -> set[str]:
    """Return the rules that a quick round leaves out, as listed by *program*."""
    listed = [
        set(_finished([str(program), "--list", *more], _SECONDS_MAX)[1].split())
        for more in ([], ["--quick"])
    ]
    return listed[0] - listed[1]


def _finished(command: list[str], seconds: float) -> tuple[int, str, str]:
    """Run *command*; return its exit code, its output and its errors.

    None of its processes is left afterwards.
    """
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, words = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ValueError(f"it did not end in {seconds} s") from None
        finally:
            if process.poll() is None:
                _end_group(process)
    return process.returncode, output, words


def _end_group(process: subprocess.Popen[str]) -> None:
    """End *process* and its group, first by the signal on which rules clean up."""
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_PATIENCE_S)
    with contextlib.suppress(ProcessLookupError):
        time.sleep(_TIDY_S)
        os.killpg(process.pid, signal.SIGKILL)


def ask_guest(*, only: Sequence[str] = ()) -> Answers:
    """Return the answers of the emulated target's kernel; it has one CPU and no namespaces.

    Raises
    ------
    TargetError
        If the target is missing, or its guest fails.
    """
    from ..emulated.guest_image import build_program, init_program
    from ..emulated.guest_run import Job, run_guest
    from ..emulated.kernel_build import kernel

    shared = [SOURCE_FOLDER / "c/servers" / name for name in ("program.c", "io_uring.c")]
    sources = [*sorted((SOURCE_FOLDER / "c/rules").glob("*.c")), *shared]
    program = build_program(f"rules-{source_hash()}", sources)
    options = ("--alone", *_naming(only))
    job = Job("exec", program, options, modules=(_tun_module(),))
    output = run_guest(job, kernel=kernel(), init=init_program())
    return read_answers(output.text("stdout").splitlines())


_TUN_SOURCE = "drivers/net/tun.c"
_TUN_KBUILD = """\
obj-m := tun.o
ccflags-y := -DCONFIG_TUN_MODULE=1
CFLAGS_tun.o := -include $(src)/without_crc32.h
"""
_WITHOUT_CRC32 = """\
/* The target's kernel has no CRC32, which a device of Ethernet frames would need. */
#include <linux/crc32.h>
#undef ether_crc
#define ether_crc(length, data) ((u32)(data)[0])
"""


def _tun_module() -> Path:
    """Return the TUN device of the target's kernel as a module, from the kernel's own source."""
    from ..emulated.kernel_build import build_module, kernel
    from ..emulated.kernel_source import find_source

    target = kernel()
    made_of = hashlib.sha256(f"{target.id}{_TUN_KBUILD}{_WITHOUT_CRC32}".encode()).hexdigest()
    kept = target.tree.parent / f"tun-{made_of[:12]}.ko"
    if not kept.is_file():
        with tempfile.TemporaryDirectory() as name, tarfile.open(find_source().archive) as archive:
            folder = Path(name, "tun")
            folder.mkdir()
            member = next(each for each in archive if each.name.endswith(f"/{_TUN_SOURCE}"))
            content = archive.extractfile(member)
            assert content is not None
            (folder / "tun.c").write_bytes(content.read())
            (folder / "Kbuild").write_text(_TUN_KBUILD)
            (folder / "without_crc32.h").write_text(_WITHOUT_CRC32)
            write_whole(kept, build_module(folder, target).read_bytes())
    return kept


class Source(NamedTuple):
    """The source of answers: a kernel's release and other facts."""

    release: str
    command: str
    facts: Mapping[str, Any]


def this_machine() -> Source:
    """Return the source of what `ask` returns."""
    facts = machine_facts()
    return Source(
        str(facts["kernel"]), "dispatchsim validate rules --keep", {n: facts[n] for n in _FACTS}
    )


def guest() -> Source:
    """Return the source of what `ask_guest` returns."""
    from ..emulated.kernel_build import kernel
    from ..emulated.kernel_source import find_source

    version = find_source().version
    facts = {"kernel": version, "target": kernel().id}
    return Source(version, "dispatchsim validate rules --emulated --keep", facts)


def keep(answers: Answers, source: Source, folder: Path = FOLDER) -> Path:
    """Write the answers of a kernel to *folder*, in the catalogue's order; return the file."""
    found = {name: answers[name] for name in catalogue() if name in answers}
    content = {
        "format": _FORMAT,
        "date": now_text(),
        "command": source.command,
        **source.facts,
        "not_asked": {name: each.not_asked for name, each in found.items() if each.not_asked},
        "answers": {name: each.value for name, each in found.items() if not each.not_asked},
    }
    return write_kept(folder, source.release, content)


def kept(path: Path) -> Answers:
    """Return the answers in *path*.

    Raises
    ------
    ValueError
        If it is not such a file.
    """
    content = read_kept(path, _FORMAT)
    asked = {name: Answer(value) for name, value in content["answers"].items()}
    return asked | {name: Answer(not_asked=why) for name, why in content["not_asked"].items()}


def kept_files() -> list[Path]:
    """Return the files of answers in the library, the newest kernel last."""
    return sorted(FOLDER.glob("linux-*.json"), key=lambda path: numbers_of(release_of(path)))


def kept_answers(release: str) -> Answers:
    """Return the library's answers for a *release*, given in full or only as a version.

    Raises
    ------
    ValueError
        If the library has none.
    """
    files = kept_files()
    for path in files:
        if release in (release_of(path), release_of(path).partition("-")[0]):
            return kept(path)
    found = ", ".join(release_of(path) for path in files)
    raise ValueError(f'must be one of {found}, got "{release}"')


def numbers_of(release: str) -> tuple[int, ...]:
    """Return the numbers of a kernel's *release*, which can be compared.

    >>> numbers_of("6.18.44-cloud") >= numbers_of("6.5")
    True
    """
    return tuple(
        int(part) for part in release.split("-", maxsplit=1)[0].split(".") if part.isdigit()
    )
