"""Sphinx extension: the reference pages, made from the committed contracts while the site is built.

Owns which page is made from what. A page in `docs/reference` has an introduction by hand and one line, `MARK`, that is replaced by what
is made. Nothing is written into the source tree, so a page cannot differ from its contract.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from site_pages.command_page import commands_text
from site_pages.events_page import events_text
from site_pages.manifest_page import manifest_text
from site_pages.rest_page import rest_text, schemas_text

MARK = "<!-- made here from the contract -->"
"""The line of a page that is replaced."""

AFTER_THE_THEME = 900
"""Handlers of events run in the order of this number; 500 is that of the theme."""


def _of(contract: str, render: Callable[[Any], str]) -> Callable[[Path], str]:
    return lambda docs: render(json.loads((docs / contract).read_text()))


PAGES: dict[str, Callable[[Path], str]] = {
    "reference/rest": _of("openapi.json", rest_text),
    "reference/rest-schemas": _of("openapi.json", schemas_text),
    "reference/events": _of("asyncapi.json", events_text),
    "reference/manifest": _of("manifest.schema.json", manifest_text),
    "reference/commands": lambda _: commands_text(),
}
"""Page -> its text, given the folder of the sources."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", _fill_in)
    app.connect("html-page-context", _give_captions_a_level, priority=AFTER_THE_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _give_captions_a_level(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Captions of the navigation are headings for screen readers, which want to know of which level."""
    tree = context.get("furo_navigation_tree")
    if tree:
        context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def _fill_in(app: Sphinx, page: str, content: list[str]) -> None:
    if page not in PAGES:
        return
    before, mark, after = content[0].partition(MARK)
    if not mark:
        raise ExtensionError(f"docs/{page}.md lacks the line {MARK}")
    content[0] = before + PAGES[page](Path(app.srcdir)) + after
