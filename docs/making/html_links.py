"""Check that each link of a built page leads to an existing page and anchor.

HTML files ─► hrefs and sources, ids ─► relative ones: do file and id exist? ─► broken links
                                    └─► external ones are listed, not checked
"""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class Page(NamedTuple):
    """The links of a page, and its anchors."""

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
    """Return links and anchors of an HTML file."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def read_pages(folder: Path) -> dict[Path, Page]:
    """Return links and anchors of each HTML file of *folder*."""
    return {path.resolve(): read_page(path) for path in sorted(folder.rglob("*.html"))}


def broken_links(pages: Mapping[Path, Page], folder: Path) -> list[str]:
    """Return the broken links within the *pages* of *folder*, with their pages."""
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


def external_links(pages: Mapping[Path, Page]) -> list[str]:
    """Return the external addresses that *pages* link to."""
    return sorted({link for page in pages.values() for link in page.links if urlsplit(link).netloc})
