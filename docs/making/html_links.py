"""Whether every link of a built page leads to a page, and to a place in it, that is there.

HTML files ─► hrefs and sources, ids ─► relative ones: file there? id there?  ─► what is missing
                                    └─► external ones are listed, not asked
"""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class Page(NamedTuple):
    """The links of a page, and the places in it that one may link to."""

    links: list[str]
    ids: set[str]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page([], set())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        del tag
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.page.links.append(value)
            if name in ("id", "name") and value:
                self.page.ids.add(value)


def read_page(path: Path) -> Page:
    """Return links and places of an HTML file."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def broken_links(folder: Path) -> list[str]:
    """Return the links within the HTML files of *folder* that lead nowhere, with their pages."""
    pages = {path.resolve(): read_page(path) for path in sorted(folder.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            fragment = unquote(parts.fragment)
            there = target.exists() and (
                not fragment or target not in pages or fragment in pages[target].ids
            )
            if not there:
                broken.append(f"{path.relative_to(folder.resolve())}: {link}")
    return broken


def external_links(folder: Path) -> list[str]:
    """Return the addresses elsewhere that the HTML files of *folder* link to."""
    found = {
        link
        for path in folder.rglob("*.html")
        for link in read_page(path).links
        if urlsplit(link).netloc
    }
    return sorted(found)
