"""Links of HTML pages: dead ones, and ones that load from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements that a browser loads by itself."""


@dataclass
class Page:
    """What one page offers and asks for."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.page.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.page.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.page.loaded.append(given[LOADED[tag]])


def read_site(folder: Path) -> dict[Path, Page]:
    """Every page below the folder."""
    pages = {}
    for path in sorted(folder.rglob("*.html")):
        reader = _Reader()
        reader.feed(path.read_text())
        pages[path] = reader.page
    return pages


def dead_links(pages: dict[Path, Page]) -> list[str]:
    """Links and files within the site that lead nowhere, `PAGE: LINK`."""
    dead = []
    for path, page in pages.items():
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].ids):
                dead.append(f"{path.name}: {link}")
    return dead


def loaded_from_elsewhere(pages: dict[Path, Page]) -> list[str]:
    """What pages would fetch from the network."""
    return [f"{path.name}: {link}" for path, page in pages.items() for link in page.loaded if urlsplit(link).netloc]
