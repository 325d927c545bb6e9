"""Words that must not come back: what people read in sources, documents and notebooks.

    python tests/plain_words.py [PATH...]      file:line: word: use this instead: the passage

People read strings of more than one word (messages, help, tables), docstrings, comments, documents
and notebooks. Names in code (`like_this`) and code blocks are not prose.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RULES = Path(__file__).with_suffix(".toml")
PROSE = {".md", ".html", ".cff"}
C_LIKE = {".c", ".h", ".js", ".css"}
UNREAD = ("tests/", "docs/making/__pycache__", "validation/papers/published", ".ci/")
"""Beginnings of paths that hold nothing that a user reads: tests, and sentences of papers."""


class Passage(NamedTuple):
    """A piece of prose, and the line on which it begins."""

    line: int
    text: str


class Word(NamedTuple):
    """A word that is replaced, where it may stand all the same, and its replacement."""

    pattern: re.Pattern[str]
    allowed: re.Pattern[str] | None
    instead: str


class Found(NamedTuple):
    """A replaced word in a file."""

    path: str
    line: int
    word: str
    instead: str
    passage: str

    def __str__(self) -> str:
        """Return the place, the word and what to write instead."""
        return f"{self.path}:{self.line}: {self.word}: use {self.instead}: {self.passage}"


def words() -> list[Word]:
    """Return the words of the file beside this one."""
    return [
        Word(
            re.compile(each["pattern"], re.IGNORECASE),
            re.compile(each["except"]) if "except" in each else None,
            each["instead"],
        )
        for each in tomllib.loads(RULES.read_text(encoding="utf-8"))["word"]
    ]


def replaced(passage: Passage, rules: list[Word]) -> Iterator[tuple[int, str, str, str]]:
    """Yield the line, the word, its replacement and its surroundings in *passage*."""
    text = _without_code(passage.text)
    for rule in rules:
        allowed = [m.span() for m in rule.allowed.finditer(text)] if rule.allowed else []
        for match in rule.pattern.finditer(text):
            if any(first <= match.start() < end for first, end in allowed):
                continue
            around = " ".join(text[max(0, match.start() - 40) : match.end() + 40].split())
            line = passage.line + text.count("\n", 0, match.start())
            yield line, match.group(), rule.instead, around


def _without_code(text: str) -> str:
    """Blank out code: blocks, text between backticks, tags, options, paths."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())  # noqa: E731
    text = re.sub(r"^```.*?^```", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`", blank, text)
    return re.sub(r"</?\w+|--[\w.-]+|[\w-]*[/_.=][\w/.=-]*\w|\w+-far-end-\w+", blank, text)


def passages(path: Path) -> Iterator[Passage]:
    """Yield what a reader of *path* reads."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _of_python(text)
    elif path.suffix == ".ipynb":
        yield from _of_notebook(text)
    elif path.suffix in C_LIKE:
        yield from _of_c(text)
    elif path.suffix == ".toml":
        yield from _comments_of_toml(text)
    elif path.suffix in PROSE:
        yield Passage(1, text)


def _of_python(text: str) -> Iterator[Passage]:
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and " " in node.value.strip():
            yield Passage(node.lineno, _without_parameters(node.value))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(token.start[0], token.string)


def _without_parameters(docstring: str) -> str:
    """Blank out names of parameters: *name*, and a line of names before their description."""
    names = r"(?<!\*)\*\w+\*(?!\*)|^ +\w+(, \w+)*:$"
    return re.sub(names, lambda match: " " * len(match.group()), docstring, flags=re.MULTILINE)


def _of_notebook(text: str) -> Iterator[Passage]:
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield Passage(1, source)
        elif not source.startswith("%"):
            yield from _of_python(source)


def _of_c(text: str) -> Iterator[Passage]:
    for match in re.finditer(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', text, re.DOTALL):
        if " " in match.group().strip():
            yield Passage(1 + text.count("\n", 0, match.start()), match.group())


def _comments_of_toml(text: str) -> Iterator[Passage]:
    for number, line in enumerate(text.splitlines(), 1):
        if "#" in line:
            yield Passage(number, line[line.index("#") :])


def read_files() -> list[Path]:
    """Return the committed files that a user may read."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    kinds = {".py", ".ipynb", ".toml"} | C_LIKE | PROSE
    return [
        ROOT / name for name in listed if Path(name).suffix in kinds and not name.startswith(UNREAD)
    ]


def found_in(paths: list[Path]) -> list[Found]:
    """Return every replaced word in *paths*."""
    rules = words()
    return [
        Found(str(path.relative_to(ROOT)), *each)
        for path in paths
        for passage in passages(path)
        for each in replaced(passage, rules)
    ]


def main(arguments: list[str]) -> int:
    """Print the replaced words in files at or below *arguments*, or everywhere."""
    below = tuple(str(Path(each).resolve()) for each in arguments) or (str(ROOT),)
    found = found_in([path for path in read_files() if str(path).startswith(below)])
    for each in found:
        print(each)
    print(f"{len(found)} words to replace", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
