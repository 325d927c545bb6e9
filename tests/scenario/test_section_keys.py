"""What the library reads of a section of a scenario is one of its keys, or declared by its class.

mypy takes any name of a section whose keys are made from settings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatchsim.scenario.declared import SettingsSection, section_of
from dispatchsim.scenario.scenario import Scenario

ROOT = Path(__file__).parents[2]
FOLDERS = ("scenario", "models", "dispatchsim", "calibration", "validation")
SECTIONS = {name: section_of(field) for name, field in Scenario.model_fields.items()}
CLASSES = {section.__name__: section for section in SECTIONS.values()}


class _Reads(ast.NodeVisitor):
    """Finds what is read of sections in one function or module, as "Server.backlog"."""

    def __init__(self, known: dict[str, type]) -> None:
        self.known = known
        """Name of a variable -> the section that it holds, or `Scenario`."""
        self.found: list[tuple[type, str]] = []

    def kind(self, node: ast.expr) -> type | None:
        """Return the section, or `Scenario`, that an expression is, as far as it is known."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id, Scenario if node.id == "scenario" else None)
        if not isinstance(node, ast.Attribute):
            return None
        if node.attr == "scenario":
            return Scenario
        is_of_scenario = self.kind(node.value) is Scenario and node.attr in SECTIONS
        return SECTIONS[node.attr] if is_of_scenario else None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Read a function with names of its own: its parameters are what their hints say."""
        inner = _Reads(dict(self.known))
        for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            hint = ast.unparse(each.annotation).strip("'\"") if each.annotation else ""
            kind = Scenario if hint == "Scenario" else CLASSES.get(hint)
            if kind is not None:
                inner.known[each.arg] = kind
            elif hint or each.arg != "self":
                inner.known.pop(each.arg, None)
        for statement in node.body:
            inner.visit(statement)
        self.found += inner.found

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Read a class: in a section, and in `Scenario`, self is one."""
        inner = _Reads(dict(self.known))
        own = Scenario if node.name == "Scenario" else CLASSES.get(node.name)
        inner.known.pop("self", None)
        if own is not None:
            inner.known["self"] = own
        for statement in node.body:
            inner.visit(statement)
        self.found += inner.found

    def visit_Assign(self, node: ast.Assign) -> None:
        """Remember what a variable holds: server = scenario.server."""
        self.generic_visit(node)
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                if isinstance(name, ast.Name):
                    kind = self.kind(value)
                    self.known.pop(name.id, None)
                    if kind is not None:
                        self.known[name.id] = kind

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Take down what is read of a section."""
        self.generic_visit(node)
        kind = self.kind(node.value)
        if kind is not None and issubclass(kind, SettingsSection):
            self.found.append((kind, node.attr))


def _reads_of(text: str) -> list[tuple[type, str]]:
    reads = _Reads({})
    reads.visit(ast.parse(text))
    return reads.found


def _unknown(reads: list[tuple[type, str]]) -> Iterator[str]:
    for section, name in reads:
        if not (name in getattr(section, "model_fields", {}) or hasattr(section, name)):
            yield f"{section.__name__}.{name}"


def _reads_in(folder: str) -> list[tuple[type, str]]:
    reads = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        # Elsewhere a class may have the name of a section: `ds.Server`.
        classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
        others = {node.name for node in classes} if folder != "scenario" else set()
        reads += [read for read in _reads_of(text) if read[0].__name__ not in others]
    return reads


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_read_of_a_section_is_there(folder: str) -> None:
    assert sorted(set(_unknown(_reads_in(folder)))) == []


def test_most_sections_are_read() -> None:
    found = [read for folder in FOLDERS for read in _reads_in(folder)]
    assert len(found) > 150
    assert {section.__name__ for section, _ in found} >= {"Server", "Load", "Machine", "Network"}


@pytest.mark.parametrize(
    "text",
    [
        "def f(scenario): return scenario.server.backlogs",
        "def f(given: Scenario): return given.server.backlogs",
        "def f(other: Server): return other.backlogs",
        "def f(point):\n    server, load = point.scenario.server, 3\n    return server.backlogs",
        "class Server:\n    def f(self): return self.backlogs",
    ],
)
def test_a_name_that_is_no_key_is_found(text: str) -> None:
    assert list(_unknown(_reads_of(text))) == ["Server.backlogs"]
    assert list(_unknown(_reads_of(text.replace("backlogs", "backlog")))) == []
