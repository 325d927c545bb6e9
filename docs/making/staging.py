"""The sources of the site, gathered in one folder: pages by hand, generated ones, the repository's.

    docs/*.md ─────────────────────────────┐
    models, costs, commands, scores ─pages─┼──► FOLDER ──sphinx──► HTML
    CHANGELOG, notebooks, pictures ────────┘

The repository's own pages keep their places, so that their relative links lead where they did.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from dispatchsim.models.catalogue import CATALOGUE

from .accuracy import accuracy_tables
from .mechanism_pages import draw, index_page, mechanism_page, parts_page
from .reference_pages import (
    command_page,
    figure_page,
    profile_page,
    python_page,
    scenario_page,
)

REPOSITORY = Path(__file__).parents[2]
_PAGES_ELSEWHERE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "calibration/README.md",
    "calibration/c/micro/README.md",
    "calibration/emulated/README.md",
)
_BESIDE = ("notebooks", "models", "validation/reported", "scenario/shipped")
_FILES_BESIDE = (
    "validation/effects.toml",
    "calibration/profiles/lent_costs.py",
)
_MOVED = {"notebooks/README.md": "course.md", "docs/README.md": "writing-pages.md"}
"""Targets of links in the repository's pages that have another place in the site."""
_MECHANISMS = "explanation/mechanisms"
GENERATED: dict[str, Callable[[], str]] = {
    "reference/scenario.md": scenario_page,
    "reference/profile.md": profile_page,
    "reference/command-line.md": command_page,
    "reference/figures.md": figure_page,
    "reference/python.md": python_page,
    "accuracy-tables.md": accuracy_tables,
    f"{_MECHANISMS}/index.md": index_page,
    f"{_MECHANISMS}/parts.md": parts_page,
}
"""Pages made from the sources, by their place in the site."""


def stage(folder: Path, *, quick: bool = False) -> None:
    """Gather the sources of the site in *folder*, which is made anew.

    If *quick*, all pages of mechanisms show the timeline of the first, as drawing is slow.
    """
    if folder.exists():
        shutil.rmtree(folder)
    docs = REPOSITORY / "docs"
    apart = shutil.ignore_patterns("making", "__pycache__", "README.md")
    shutil.copytree(docs, folder, ignore=apart)
    _copy(docs / "README.md", folder / "writing-pages.md")
    for name in (*_PAGES_ELSEWHERE, *_FILES_BESIDE):
        _copy(REPOSITORY / name, folder / name)
    for name in _BESIDE:
        apart = shutil.ignore_patterns("__pycache__", "README.md")
        shutil.copytree(REPOSITORY / name, folder / name, ignore=apart)
    for lesson in (folder / "notebooks").glob("*.ipynb"):
        lesson.write_text(lesson.read_text().replace("](README.md)", "](../course.md)"))
    shutil.copytree(
        REPOSITORY / "validation/reported",
        folder / "extra" / "validation" / "reported",
        ignore=shutil.ignore_patterns("*.png", "*.txt"),
    )
    for name in _PAGES_ELSEWHERE:
        page = folder / name
        page.write_text(links_within(page.read_text(), (REPOSITORY / name).parent))
    for name, make in GENERATED.items():
        _write(folder / name, make())
    drawn = list(CATALOGUE)[:1] if quick else list(CATALOGUE)
    for name in drawn:
        draw(name, folder / _MECHANISMS / f"{name}.svg")
    for name in CATALOGUE:
        picture = name if name in drawn else drawn[0]
        about = mechanism_page(name, picture=f"{picture}.svg")
        _write(folder / _MECHANISMS / f"{name}.md", about)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def links_within(text: str, folder: Path) -> str:
    """Return a page of *folder* with links that work in the site.

    A link to a file beside the page becomes a download, by MyST itself. Folders have no
    page, except that of the course. Reports are HTML pages that Sphinx does not build.
    """

    def link(found: re.Match[str]) -> str:
        words, target = found.groups()
        if target in _MOVED:
            return f"[{words}]({_MOVED[target]})"
        if target.endswith(".html") and "://" not in target:
            return f'<a href="{target}"><code>{words.strip("`")}</code></a>'
        return words if (folder / target).is_dir() else found[0]

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)#]+)\)", link, text)
