"""No replaced word stands in what people read, and the checker finds such words there only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.plain_words import found_in, read_files

SAID = "the kernel " + "told the server"  # in two strings, so that the checker may read this file


def words_of(tmp_path: Path, name: str, text: str) -> list[tuple[int, str]]:
    """Return the lines and words that the checker finds in a file of *text*."""
    path = tmp_path / name
    path.write_text(text)
    return [(found.line, found.word) for found in found_in([path], tmp_path)]


def test_no_replaced_word_stands_in_what_people_read() -> None:
    found = found_in(read_files())
    listed = "\n".join(str(each) for each in found)
    assert not found, f"{len(found)} words to replace (tests/plain_words.toml):\n{listed}"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("docstring.py", f'def wake() -> None:\n    """Wake.\n\n    Now {SAID}.\n    """\n', 4),
        ("comment.py", f"wake()\nwait()  # {SAID}\n", 2),
        ("message.py", f'raise ValueError("{SAID}")\n', 1),
        ("f_string.py", 'print(f"{kernel} told {server}")\n', 1),
        ("two_strings.py", 'print(\n    "what the kernel "\n    "told"\n)\n', 3),
        ("behind_an_escape.py", 'print("wake up\\ntold")\n', 1),
        ("comment.c", f"int wake(void);\n/* Here\n   {SAID}. */\n", 3),
        ("string.c", f'puts("{SAID}");\n', 1),
        ("comment.toml", f"wakes = 1\n# {SAID}\n", 2),
        ("document.md", f"# Waking\n\nAt last {SAID}.\n", 3),
    ],
)
def test_a_replaced_word_is_found_on_its_line(
    tmp_path: Path, name: str, text: str, line: int
) -> None:
    assert words_of(tmp_path, name, text) == [(line, "told")]


def test_a_replaced_word_is_found_in_cells_of_a_notebook(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Waking\n", f"At last {SAID}."]},
        {"cell_type": "code", "source": ["wake()\n", f"wait()  # {SAID}"]},
    ]
    text = json.dumps({"cells": cells}, indent=1)
    lines = text.splitlines()
    expected = [1 + number for number, line in enumerate(lines) if "told" in line]
    assert words_of(tmp_path, "lesson.ipynb", text) == [(line, "told") for line in expected]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("name.py", "told = draws.prices(told)\n"),
        ("key.py", 'server["told"] = b"the kernel told"\n'),
        ("in_f_string.py", 'print(f"wakes of {told.draws}: {told}")\n'),
        ("parameter.py", '"""Wake.\n\n    Use *told*.\n\n    told:\n        Threads.\n    """\n'),
        ("code.md", "Set `server.overflow_told` or `told`.\n\n```\ntold = 1\n```\n"),
        ("paths_and_options.md", "Open validation/told/draws.csv, or add --draws 5.\n"),
        ("code.c", "told = wake(told);\n"),
        ("value.toml", 'wakes = "when told"\n'),
        ("usual_sense.md", "The scan has 3 cache misses, as in figure 4.\n"),
    ],
)
def test_code_and_the_usual_sense_are_no_finding(tmp_path: Path, name: str, text: str) -> None:
    assert words_of(tmp_path, name, text) == []


def test_a_finding_is_printed_with_its_place_and_replacement(tmp_path: Path) -> None:
    path = tmp_path / "guide.md"
    path.write_text("It prints what a request costs.\nThe price is 3 us.\n")
    (found,) = found_in([path], tmp_path)
    assert str(found).startswith("guide.md:2: price: use cost, costs; ")
    assert str(found).endswith("prints what a request costs. The price is 3 us.")
