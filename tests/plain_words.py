"""Words that must not come back: what people read in sources, documents and notebooks.

    python tests/plain_words.py [PATH...]      file:line: word: use this instead: the passage

People read strings of more than one word (messages, help, tables), docstrings, comments, documents
and notebooks. Names in code (`like_this`) and code blocks are not prose.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RULES = Path(__file__).with_suffix(".toml")
PROSE = {".md", ".html", ".cff"}
C_LIKE = {".c", ".h", ".js", ".css"}
UNREAD = ("tests/", "validation/papers/published", ".ci/")
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
    """A replaced word in a file, and its surroundings."""

    path: str
    line: int
    word: str
    instead: str
    around: str

    def __str__(self) -> str:
        """Return the place, the word and what to write instead."""
        return f"{self.path}:{self.line}: {self.word}: use {self.instead}: {self.around}"


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


WORDS = words()
ANY_WORD = re.compile(rf"\b(?:{'|'.join(word.pattern.pattern for word in WORDS)})")
"""Any word in a text in lower case, which is much faster than to ignore the case."""
ANY_WORD_IN_SOURCE = re.compile(
    # Between two words a line may end, and another string begin.
    ANY_WORD.pattern.replace("[- ]", " ").replace(" ", r"\W+")
)
"""Without a match a file has no replaced word."""


def replaced(passage: Passage) -> Iterator[tuple[int, str, str, str]]:
    """Yield the line, the word, its replacement and its surroundings in *passage*."""
    if not ANY_WORD.search(passage.text.lower()):
        return
    text = _without_code(passage.text)
    for match in ANY_WORD.finditer(text.lower()):
        word = next(each for each in WORDS if each.pattern.match(text, match.start()))
        allowed = word.allowed.finditer(text) if word.allowed else ()
        if any(each.start() <= match.start() < each.end() for each in allowed):
            continue
        around = " ".join(text[max(0, match.start() - 40) : match.end() + 40].split())
        line = passage.line + text.count("\n", 0, match.start())
        yield line, text[match.start() : match.end()], word.instead, around


def _without_code(text: str) -> str:
    """Blank out code: between backticks, after a colon of reStructuredText, paths and options."""
    text = re.sub(r"^```.*?^```", _blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`", _blank, text)
    text = re.sub(r"\w+(?= = [\"\d])|\w+/(?=\s|$)", _blank, text)
    return re.sub(r"--[\w.-]+|[\w-]*[/_.=][\w/.=-]*\w|\w+-far-end-\w+", _blank, text)


def _without_escapes(text: str) -> str:
    r"""Put spaces in place of \n and \t, which would lengthen the word behind them."""
    return text.replace(r"\n", "  ").replace(r"\t", "  ")


def _blank(match: re.Match[str]) -> str:
    """Return as many spaces, in as many lines."""
    return "\n".join(" " * len(line) for line in match.group().split("\n"))


def passages(path: Path) -> Iterator[Passage]:
    """Yield what a reader of *path* reads."""
    text = path.read_text(encoding="utf-8")
    if not ANY_WORD_IN_SOURCE.search(_without_escapes(text).lower()):
        return
    if path.suffix == ".py":
        yield from _of_python(text)
    elif path.suffix == ".ipynb":
        yield from _of_notebook(text)
    elif path.suffix in C_LIKE:
        yield from _of_c(text)
    elif path.suffix == ".toml":
        yield from _comments_of_toml(text)
    elif path.suffix == ".html":
        yield Passage(1, _of_html(text))
    elif path.suffix in PROSE:
        yield Passage(1, text)


def _of_html(text: str) -> str:
    """Blank out styles and tags; keep texts and titles, which a page shows."""
    text = re.sub(r"<style.*?</style>", _blank, text, flags=re.DOTALL)
    text = re.sub(r'<[^<>]*? title="([^"]*)"[^<>]*>', r" \1 ", text)
    return re.sub(r"<[^<>]*>", _blank, text)


COMMENT_OR_STRING = re.compile(
    r"""(?P<comment>\#[^\n]*)
    | (?<!\w)(?P<prefix>[bfru]{0,2})
      (?P<quotes>\"{3}|'{3}|["']) (?P<text>(?:[^\\]|\\.)*?) (?P=quotes)
    """,
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
PARAMETERS = re.compile(r"(?<!\*)\*\w+\*(?!\*)|^ +\w+(, \w+)*:$", re.MULTILINE)
"""Names of parameters in a docstring: *name*, and a line of names before their description."""


def _of_python(text: str) -> Iterator[Passage]:
    line, begin, end = 1, 0, 0
    for match in COMMENT_OR_STRING.finditer(text):
        read, prefix = match["comment"] or match["text"], (match["prefix"] or "").lower()
        goes_on, end = text[end : match.start()].isspace(), match.end()
        line, begin = line + text.count("\n", begin, match.start()), match.start()
        if "f" in prefix:
            read = re.sub(r"(?<=\{)[^{}]*(?=\})", _blank, read)
        if "b" not in prefix and (goes_on or " " in read.strip()):
            yield Passage(line, PARAMETERS.sub(_blank, _without_escapes(read)))


def _of_notebook(text: str) -> Iterator[Passage]:
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        # A notebook's file has a line for each line of a cell.
        first = text.find(json.dumps("".join(cell["source"][:1]), ensure_ascii=False))
        before = text.count("\n", 0, first)
        if cell["cell_type"] == "markdown":
            yield Passage(before + 1, source)
        elif not source.startswith("%"):
            for passage in _of_python(source):
                yield Passage(before + passage.line, passage.text)


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


def found_in(paths: Iterable[Path], root: Path = ROOT) -> list[Found]:
    """Return every replaced word in *paths*, which lie below *root*."""
    return [
        Found(path.relative_to(root).as_posix(), *each)
        for path in paths
        for passage in passages(path)
        for each in replaced(passage)
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
