"""Print how large the house is, and whether it is in order: `make size`.

Lines and modules of each top-level folder, files that are very short or very long, imports against
the direction of the folders, and circles of imports (type hints and late imports included).
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TOP = ("sim", "models", "scenario", "calibration", "validation", "dispatchsim")
"""Each imports only those before it."""
WITHIN = {
    "sim": (
        *("files", "native", "state", "load", "wire", "clients", "cpu", "tcp", "kernel"),
        *("figures", "engine", "assembly", "output_analysis"),
    ),
    "models": (
        *("entry", "remembering", "epoll", "scans", "completions", "threads"),
        *("programs", "signals"),
    ),
}
"""The folders of a top-level folder in their order; modules beside them stand above all."""
SHORT, LONG = 60, 500
CODE_MAX, MODULES_MAX = 39_000, 340
"""What is wanted of the library outside tests: lines of code and imports, modules."""


class Size(NamedTuple):
    """What a file holds: all lines, lines of code without imports, lines of imports."""

    lines: int
    code: int
    imports: int


def modules() -> dict[str, Path]:
    """Return the modules of the library by the names that they install as."""
    found = {}
    for top in TOP:
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            parts = parts if top == "dispatchsim" else ["dispatchsim", *parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def size_of(path: Path) -> Size:
    """Return the size of a file; docstrings, comments and blank lines are no code."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    imports = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    words = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    spoken = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in (*silent, tokenize.ENDMARKER)
        for line in range(token.start[0], token.end[0] + 1)
    }
    return Size(len(text.splitlines()), len(spoken - words - imports), len(imports))


def imported(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of the library that a module imports, anywhere in it."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")
            origin = above[: len(above) - node.level + 1] if node.level else []
            base = ".".join([*origin, *([node.module] if node.module else [])])
            for alias in node.names:
                below = f"{base}.{alias.name}"
                found = below if below in known else base
                if found in known and found != name:
                    yield found


def place(name: str) -> tuple[int, int]:
    """Return where a module stands: in which top-level folder, and in which folder of that."""
    _, *parts = name.split(".")
    top = parts[0] if parts and parts[0] in TOP else "dispatchsim"
    order = WITHIN.get(top, ())
    inner = order.index(parts[1]) if len(parts) > 1 and parts[1] in order else len(order)
    return TOP.index(top), inner


def against_direction(graph: dict[str, set[str]]) -> list[str]:
    """Return the imports of what stands above."""
    return sorted(
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in others
        if place(other) > place(name)
        if place(other)[0] != place(name)[0] or TOP[place(name)[0]] in WITHIN
    )


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, in the order of their names (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            group = [stack.pop()]
            while group[-1] != name:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return sorted(found)


def graph_of(known: dict[str, Path]) -> dict[str, set[str]]:
    """Return what each module imports."""
    return {name: set(imported(name, path, known)) for name, path in known.items()}


def main() -> None:
    """Print the tables."""
    known = modules()
    sizes = {name: size_of(path) for name, path in known.items()}
    print(f"{'':14}{'modules':>9}{'lines':>9}{'code':>9}{'imports':>9}")
    for i, top in enumerate(TOP):
        own = [size for name, size in sizes.items() if place(name)[0] == i]
        n = [sum(column) for column in zip(*own, strict=True)]
        print(f"{top:14}{len(own):9,}{n[0]:9,}{n[1]:9,}{n[2]:9,}")
    n = [sum(column) for column in zip(*sizes.values(), strict=True)]
    print(f"{'all':14}{len(sizes):9,}{n[0]:9,}{n[1]:9,}{n[2]:9,}")
    print(f"code and imports: {n[1] + n[2]:,} (wanted: at most {CODE_MAX:,})")
    print(f"modules: {len(sizes)} (wanted: at most {MODULES_MAX})")
    graph = graph_of(known)
    wrong, round_ = against_direction(graph), circles(graph)
    print(f"imports against the direction: {len(wrong)}", *wrong, sep="\n    ")
    print(f"circles of imports: {len(round_)}", *(" ".join(each) for each in round_), sep="\n    ")
    for what, names in (
        (f"under {SHORT} lines", [n for n, s in sizes.items() if s.lines < SHORT]),
        (f"above {LONG} lines", [n for n, s in sizes.items() if s.lines > LONG]),
    ):
        named = [f"{n.removeprefix('dispatchsim.')} ({sizes[n].lines})" for n in names]
        print(f"files {what}: {len(named)}", *named, sep="\n    ")


if __name__ == "__main__":
    main()
