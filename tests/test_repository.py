"""The repository keeps its own promises: packaging, imports, names, examples, sizes."""

import ast
import doctest
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.size import TOP, contracts, link

from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.models.catalogue import CATALOGUE, CSupport

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

FOLDERS = sorted(TOP)
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

# Measured data is text, so that a change of it can be read.
PICTURES = {".jpg", ".png"}

GENERATED = {".git", ".venv", "__pycache__", "build", "dist"}


def repository_files() -> list[Path]:
    """Return what git has or would take, or everything not generated where there is no git."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # An unpacked archive may lie inside another repository, which then lists nothing of it.
    if listing.returncode == 0 and "pyproject.toml" in listing.stdout.split("\0"):
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(
                part in GENERATED or part.endswith(("_cache", ".egg-info"))
                for part in path.relative_to(ROOT).parts
            )
        ]
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


FILES = repository_files()


def name(path: Path) -> str:
    """Return the path from the root of the repository, for messages."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """Return the name under which a library source file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] != "dispatchsim":
        parts = ("dispatchsim", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_with_examples() -> list[str]:
    """Return the names of all library modules with a prompt of Python in their text."""
    found = [
        module_name(path)
        for path in SOURCES
        if path.name != "__main__.py" and re.search(r"^\s*>>> ", path.read_text(), re.M)
    ]
    assert found, "no module of the library has an example"
    return sorted(found)


# Packaging


def test_no_library_folder_lacks_an_init() -> None:
    folders = {path.parent for path in SOURCES}
    assert [name(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_module_is_found_by_its_installed_name() -> None:
    for path in SOURCES:
        spec = importlib.util.find_spec(module_name(path))
        assert spec is not None, f"{name(path)} is not installed; does `make test` run it?"
        assert spec.origin is not None
        assert Path(spec.origin).samefile(path)


def is_of_the_repository_alone(path: Path) -> bool:
    """Return whether *path* is a report, or a measured run that nothing reads at run time."""
    parts = path.relative_to(ROOT).parts
    return "reported" in parts or ("measured" in parts and example_profile().name not in parts)


def test_a_wheel_holds_every_file_of_the_library(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shipped = set()
    for path in FILES:
        top = path.relative_to(ROOT).parts[0]
        if top in FOLDERS or path.parent == ROOT:
            copy = source / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        if top in FOLDERS and not is_of_the_repository_alone(path):
            prefix = "" if top == "dispatchsim" else "dispatchsim/"
            shipped.add(prefix + name(path))
    # The setuptools of this environment builds it, so that the test needs no network.
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, source],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = {entry for entry in archive.namelist() if ".dist-info/" not in entry}
    assert inside == shipped


def test_the_changelog_names_the_version() -> None:
    version = re.escape(PROJECT["project"]["version"])
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{version}\] - (unreleased|\d{{4}}-\d\d-\d\d)$", changelog, re.M)


def test_the_citation_states_what_the_package_states() -> None:
    project = PROJECT["project"]
    citation = (ROOT / "CITATION.cff").read_text()
    values = dict(re.findall(r"^([a-z-]+): (\S.*)$", citation, re.M))
    assert values["cff-version"] == "1.2.0"
    assert values["message"]
    assert values["title"] == project["name"]
    assert values["abstract"] == project["description"]
    assert values["version"] == project["version"]
    assert values["license"] == project["license"]
    assert values["url"] == project["urls"]["Homepage"]
    assert re.findall(r"^  - name: (.+)$", citation, re.M) == [
        author["name"] for author in project["authors"]
    ]
    assert set(re.findall(r"^  - (?!name)(.+)$", citation, re.M)) == set(project["keywords"])


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "SECURITY.md"])
def test_problems_are_reported_to_one_address(document: str) -> None:
    addresses = re.findall(r"<(https://[^>]*)>", (ROOT / document).read_text())
    assert set(addresses) == {PROJECT["project"]["urls"]["Issues"]}


# Imports and names


def test_imports_keep_the_contracts(tmp_path: Path) -> None:
    link(tmp_path)
    checked = contracts(tmp_path)
    assert checked.returncode == 0, checked.stdout


def test_an_import_against_the_direction_is_found(tmp_path: Path) -> None:
    link(tmp_path)
    sim = tmp_path / "dispatchsim/sim"
    sim.unlink()
    shutil.copytree(ROOT / "sim", sim)
    (sim / "state/upwards.py").write_text("def late():\n    from ..tcp import listen_queue\n")
    checked = contracts(tmp_path)
    assert checked.returncode != 0
    assert "dispatchsim.sim.state.upwards -> dispatchsim.sim.tcp.listen_queue" in checked.stdout


def test_the_library_imports_itself_by_relative_names() -> None:
    wrong = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module or ""]
            else:
                continue
            wrong += [
                f"{name(path)}:{node.lineno}"
                for module in modules
                if module.split(".")[0] in FOLDERS
            ]
    assert wrong == []


def test_no_module_carries_a_standard_library_name() -> None:
    assert "select" in sys.stdlib_module_names
    modules = [*SOURCES, *(ROOT / "tests").rglob("*.py")]
    assert [name(path) for path in modules if path.stem in sys.stdlib_module_names] == []


def test_c_mechanisms_are_called_as_their_models() -> None:
    programs = list((ROOT / "calibration/c/servers").glob("*.c"))
    # A mechanism is the file that defines a `struct mechanism`; an array of them is the table.
    definition = re.compile(r"^(?:static )?const struct mechanism \w+ = \{", re.M)
    mechanisms = {path.stem for path in programs if definition.search(path.read_text())}
    # A C mechanism may come before its model, but a model with C support has one of its name.
    with_c = [e for e in CATALOGUE.values() if e.c_support is not CSupport.NONE]
    modelled = {entry.c_server for entry in with_c}
    assert modelled, "the catalogue has no model with C support"
    # Blocking threads and io_uring have none: these servers have loops of their own.
    assert modelled - mechanisms == {"blocking", "io_uring"}
    assert {"blocking", "io_uring"} <= {path.stem for path in programs}


# Documentation


@pytest.mark.parametrize("module", modules_with_examples())
def test_docstring_examples_hold(module: str) -> None:
    failed, attempted = doctest.testmod(importlib.import_module(module))
    assert attempted > 0
    assert failed == 0


def test_notebooks_hold_no_failed_cell() -> None:
    failed = [
        f"{name(path)}, cell {number}"
        for path in FILES
        if path.suffix == ".ipynb"
        for number, cell in enumerate(json.loads(path.read_text())["cells"])
        for output in cell.get("outputs", [])
        if output["output_type"] == "error"
    ]
    assert failed == []


# Text


def is_binary(content: bytes) -> bool:
    """Return whether *content* is no text, as git decides it."""
    return b"\0" in content[:8000]


def test_no_binary_file_is_tracked_but_pictures() -> None:
    binary = {name(path) for path in FILES if is_binary(path.read_bytes())}
    pictures = {path for path in binary if Path(path).suffix in PICTURES}
    assert pictures, "the pictures of the README are binary files"
    assert binary - pictures == set(), "compiled code and packed data can be made again"


# The path of one machine: a home or a working folder at the root of its file system.
MACHINE_PATH = re.compile(r"(?<![\w.~}])/(?:home|root|work)/")
MERGE_MARKER = re.compile(r"^(?:<{7}|>{7}|\|{7})(?: |$)", re.M)


@pytest.mark.parametrize("folder", ["home", "root", "work"])
def test_a_path_of_one_machine_is_recognised(folder: str) -> None:
    assert MACHINE_PATH.search(f'open("/{folder}/x")')
    assert not MACHINE_PATH.search(f"https://example.org/{folder}/x")


@pytest.mark.parametrize("pattern", [MACHINE_PATH, MERGE_MARKER], ids=["path", "merge marker"])
def test_no_text_file_holds(pattern: re.Pattern[str]) -> None:
    found = []
    for path in FILES:
        content = path.read_bytes()
        if b"\0" not in content:  # as git tells text from the rest
            text = content.decode()
            found += [
                f"{name(path)}:{text.count(chr(10), 0, match.start()) + 1}"
                for match in pattern.finditer(text)
            ]
    assert found == []


def test_the_readme_has_no_gap_and_no_dead_link() -> None:
    text = (ROOT / "README.md").read_text()
    assert not re.findall(r"@[A-Z]+@", text)
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert links
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing


@pytest.mark.parametrize(
    "path",
    sorted(p for p in repository_files() if p.name == "README.md"),
    ids=lambda path: path.parent.name,
)
def test_commands_of_the_readmes_name_modules_and_files_that_are_there(path: Path) -> None:
    text = " ".join(path.read_text().split())
    modules = re.findall(r"python (?:-P )?-m (dispatchsim[.\w]*)", text)
    commands = re.findall(r"\bdispatchsim[.\w]*(?: [-\w./]+)+", text)
    assert commands or path.parent != ROOT
    for module in modules:
        assert importlib.util.find_spec(module), module
    for command in commands:
        for word in command.split():
            if word.startswith(("calibration/", "validation/")):
                assert (ROOT / word.rstrip(".")).exists(), command


def test_make_passes_arguments_to_the_benchmarks() -> None:
    command = ["make", "--no-print-directory", "-n", "bench", "ARGS=--quick --json FILE"]
    # Under make itself, MAKEFLAGS would add to what this one prints.
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    shown = subprocess.run(
        command, cwd=ROOT, env=own, capture_output=True, text=True, check=True
    ).stdout
    assert shown.splitlines()[-1].endswith("dispatchsim lab bench --quick --json FILE")
