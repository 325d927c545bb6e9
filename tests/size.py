"""Print how large the house is, and whether it is in order: `make size`.

Lines and modules of each top-level folder, files that are very short or very long, and whether
imports keep the contracts of pyproject.toml (type hints and late imports included).
With `--link FOLDER`: make FOLDER/dispatchsim, which checkers read.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TOP = ("sim", "models", "scenario", "calibration", "validation", "dispatchsim")
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


def top_of(name: str) -> str:
    """Return the top-level folder of a module."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in TOP else "dispatchsim"


def link(folder: Path) -> None:
    """Make *folder*/dispatchsim anew: the library under the names that it installs as.

    The folders stay at the top level of the repository and install under one name, by a hook that
    checkers of types and of imports cannot follow. They read these links instead.
    """
    package = folder / "dispatchsim"
    package.mkdir(parents=True, exist_ok=True)
    for old in package.iterdir():
        old.unlink()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tops = project["tool"]["setuptools"]["package-dir"].values()
    own = (path for path in (ROOT / "dispatchsim").iterdir() if path.name != "__pycache__")
    for path in (*own, *(ROOT / top for top in tops if top != "dispatchsim")):
        (package / path.name).symlink_to(path)


def contracts(names: Path) -> subprocess.CompletedProcess[str]:
    """Check imports below *names* (as `link` made them); exit code 0: all are in order."""
    checker = Path(sys.executable).with_name("lint-imports")
    command = [str(checker), "--no-cache", str(ROOT / "pyproject.toml")]
    return subprocess.run(command, cwd=names, capture_output=True, text=True, check=False)


def main() -> None:
    """Print the tables."""
    known = modules()
    sizes = {name: size_of(path) for name, path in known.items()}
    print(f"{'':14}{'modules':>9}{'lines':>9}{'code':>9}{'imports':>9}")
    for top in TOP:
        own = [size for name, size in sizes.items() if top_of(name) == top]
        n = [sum(column) for column in zip(*own, strict=True)]
        print(f"{top:14}{len(own):9,}{n[0]:9,}{n[1]:9,}{n[2]:9,}")
    n = [sum(column) for column in zip(*sizes.values(), strict=True)]
    print(f"{'all':14}{len(sizes):9,}{n[0]:9,}{n[1]:9,}{n[2]:9,}")
    print(f"code and imports: {n[1] + n[2]:,} (wanted: at most {CODE_MAX:,})")
    print(f"modules: {len(sizes)} (wanted: at most {MODULES_MAX})")
    with tempfile.TemporaryDirectory() as folder:
        link(Path(folder))
        found = contracts(Path(folder))
    print(found.stdout[found.stdout.index("Contracts: ") :].strip())
    for what, names in (
        (f"under {SHORT} lines", [n for n, s in sizes.items() if s.lines < SHORT]),
        (f"above {LONG} lines", [n for n, s in sizes.items() if s.lines > LONG]),
    ):
        named = [f"{n.removeprefix('dispatchsim.')} ({sizes[n].lines})" for n in names]
        print(f"files {what}: {len(named)}", *named, sep="\n    ")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--link"]:
        link(Path(sys.argv[2]))
    else:
        main()
