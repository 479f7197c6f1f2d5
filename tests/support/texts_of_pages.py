"""The catalogue of the console's English texts, from which translations are made.

`python -m tests.support.texts_of_pages` writes it again after texts have changed; `tests/services/api/web/test_texts.py` says when.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import write_po
from jinja2.ext import babel_extract

from odfabric_api.web.rendering import ROOM

CATALOGUE = ROOM / "locale" / "console.pot"
OPTIONS = {"newstyle_gettext": "true", "silent": "false"}


def catalogue() -> bytes:
    """Texts of all templates, sorted, each with its templates; no time in it."""
    found = Catalog(project="odfabric console", charset="utf-8", header_comment="# Texts of the console's pages.")
    for path in sorted((ROOM / "templates").rglob("*.html")):
        for _, message, comments, context in _texts(path):
            place = [(path.relative_to(ROOM / "templates").as_posix(), None)]
            found.add(message, None, place, auto_comments=comments, context=context)  # type: ignore[arg-type]
    written = BytesIO()
    write_po(written, found, omit_header=True, sort_output=True, width=120)
    return written.getvalue()


def _texts(path: Path) -> list[tuple[int, str | tuple[str, ...], list[str], str | None]]:
    with path.open("rb") as template:
        return list(extract(babel_extract, template, options=OPTIONS))


if __name__ == "__main__":
    CATALOGUE.write_bytes(catalogue())
