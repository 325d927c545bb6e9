"""Build the site: gather its sources, run Sphinx, check each internal link.

    python -m docs.making [FOLDER] [--links] [--quick]

FOLDER is build/docs of the repository by default; the site begins at html/index.html in it. --links
also checks external addresses, which needs the network. --quick shows lessons as they are stored,
parses commands without executing them (except those of the tutorial), and makes one timeline for
all mechanisms.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from dispatchsim.calibration.profiles.choosing import EXAMPLE, VARIABLE

from .html_links import broken_links, external_links, read_pages
from .staging import REPOSITORY, stage

_PROCESSES = 2


def main(arguments: list[str]) -> int:
    """Build the site; return 0 if it is complete."""
    parser = argparse.ArgumentParser(
        prog="docs.making", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("folder", nargs="?", type=Path, default=REPOSITORY / "build" / "docs")
    parser.add_argument("--links", action="store_true", help="also check external addresses")
    parser.add_argument("--quick", action="store_true", help="execute less: for the tests")
    asked = parser.parse_args(arguments)
    os.environ[VARIABLE] = EXAMPLE  # pages are the same on every CPU
    source, html = asked.folder / "source", asked.folder / "html"
    stage(source, quick=asked.quick)
    strict = ["-n", "-W", "--keep-going", "-q", "-j", str(_PROCESSES)]
    if asked.quick:
        strict += ["-t", "quick"]
    places = ["-d", str(asked.folder / "doctrees"), str(source)]
    code = build_main([*strict, "-E", "-b", "html", *places, str(html)])
    if code == 0 and asked.links:
        code = build_main([*strict, "-b", "linkcheck", *places, str(asked.folder / "links")])
    if code != 0:
        return code
    pages = read_pages(html)
    broken = broken_links(pages, html)
    for line in broken:
        print(f"error: {line}: broken link", file=sys.stderr)
    print(f"{len(external_links(pages))} external addresses are not checked (`make docs-links`)")
    print(html / "index.html")
    return 2 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
