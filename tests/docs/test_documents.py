"""The site of documents: built once, whole, with the tutorial's commands and all cells executed.

Commands of other pages are parsed: `make docs` executes them, too. Lessons are tests of their own
(nbmake), and not executed again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.making.html_links import read_page
from docs.making.staging import REPOSITORY

from dispatchsim.models.catalogue import CATALOGUE

_SECONDS_MAX = 900.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("docs")
    done = subprocess.run(
        [sys.executable, "-m", "docs.making", str(folder), "--quick"],
        cwd=REPOSITORY,
        env=os.environ | {"DISPATCHSIM_PROFILE": "epyc-family25-2cpu-linux-6.18"},  # not the site's
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout + done.stderr  # it is 2 if a link is broken
    assert re.search(r"^[1-9]\d* external addresses", done.stdout, re.M)
    return folder / "html"


def test_every_page_and_lesson_is_there(site: Path) -> None:
    by_hand = [path.relative_to(REPOSITORY / "docs") for path in REPOSITORY.glob("docs/**/*.md")]
    lessons = [path.relative_to(REPOSITORY) for path in REPOSITORY.glob("notebooks/*.ipynb")]
    mechanisms = [Path("explanation/mechanisms", f"{name}.md") for name in CATALOGUE]
    expected = [path for path in (*by_hand, *lessons, *mechanisms) if path.name != "README.md"]
    missing = [str(path) for path in expected if not (site / path.with_suffix(".html")).exists()]
    assert missing == []


def test_every_command_of_the_tutorial_has_its_output(site: Path) -> None:
    tutorial = (site / "tutorial.html").read_text()
    assert tutorial.count('class="command-output') == tutorial.count('class="command-line') - 1
    assert tutorial.count('class="command-refused') == 1
    assert "p99 &lt; 50 ms holds up to " in tutorial
    assert "measured per second" in tutorial
    assert "\x1b[" not in tutorial


def test_pictures_of_cells_are_shown(site: Path) -> None:
    for page in ("how-to/look-inside-a-run.html", "how-to/sweep-and-keep-results.html"):
        assert "&lt;Figure size" not in (site / page).read_text()


def test_a_field_an_option_and_a_mechanism_can_be_linked_to(site: Path) -> None:
    assert "confval-load.rate" in read_page(site / "reference/scenario.html").ids
    options = read_page(site / "reference/command-line.html").ids
    assert "cmdoption-dispatchsim-run-cost-samples" in options
    assert "part-scan" in read_page(site / "explanation/mechanisms/parts.html").ids
