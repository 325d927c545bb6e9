"""CONTRIBUTING.md names files and functions that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = re.findall(
    r"^\| Where .*\? \| `([^`]+)` \| `([^`]+)` \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M
)


def names_in(path: Path) -> set[str]:
    """Return the classes, functions and constants that a file defines, methods included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_the_guide_answers_questions() -> None:
    assert len(PLACES) > 10


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_what_is_asked_for_is_where_the_guide_says(file: str, name: str) -> None:
    assert name in names_in(ROOT / file)
