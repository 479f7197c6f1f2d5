"""How pages are made from templates.

Owns the environment of the templates: every value is escaped, an unknown name is an error, texts go through the catalogue (gettext), and
numbers, sizes, times and hashes have one look each. Not here: which page shows what (`web.routes`).
"""

from __future__ import annotations

import functools
import gettext
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from odfabric.model.instant import Instant
from odfabric_api.web.markdown import markdown_html

ROOM = Path(__file__).parent
OPERATIONS = {0: "append", 1: "retract", 2: "correct from", 3: "correct to"}
"""Words for the values of the column `op`."""

_UNSEEN = re.compile("([\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff])")
"""Control signs, and those that turn the direction of text or have no width: a cell could look like another one."""
_UNITS = ("KB", "MB", "GB", "TB", "PB")
_SPANS = ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute"))


@functools.cache
def environment() -> Environment:
    """The environment of all templates."""
    made = Environment(
        loader=FileSystemLoader(ROOM / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    translations = gettext.translation("console", ROOM / "locale", fallback=True)
    made.install_gettext_translations(translations, newstyle=True)  # type: ignore[attr-defined]
    made.filters.update(number=number, size=size, when=when, at=at, short=short, cell=cell, markdown=markdown_html)
    made.globals.update(stylesheet=f"/-/assets/{stylesheet()[0]}", operations=OPERATIONS)
    return made


@functools.cache
def stylesheet() -> tuple[str, bytes]:
    """Name and bytes of the stylesheet.

    The name changes with the bytes, so browsers may keep it for ever.
    """
    data = (ROOM / "static" / "console.css").read_bytes()
    return f"console-{hashlib.sha256(data).hexdigest()[:16]}.css", data


def number(value: int | None) -> str:
    """`12345` as `12,345`; an unknown number is a dash."""
    return "–" if value is None else f"{value:,}"


def size(count: int | None) -> str:
    """Bytes in powers of 1000."""
    if count is None:
        return "–"
    if count < 1000:
        return f"{count} B"
    power = min((len(str(count)) - 1) // 3, len(_UNITS))
    scaled = count / 1000**power
    return f"{scaled:.1f} {_UNITS[power - 1]}" if scaled < 10 else f"{scaled:.0f} {_UNITS[power - 1]}"


def when(moment: Instant | None, *, now: Instant) -> Markup:
    """How long ago, and the exact UTC time for a pointer or a machine."""
    if moment is None:
        return Markup("–")
    text = str(moment)
    shown = f"{text[:16].replace('T', ' ')} UTC"
    words = _ago((now.epoch_ns - moment.epoch_ns) / 1e9)
    return Markup('<time datetime="{}" title="{}" data-local>{}</time>').format(text, shown, words)


def at(moment: Instant | None) -> Markup:
    """A time as such, in UTC: how far the data goes is no matter of how long ago."""
    if moment is None:
        return Markup("–")
    text = str(moment)
    return Markup('<time datetime="{}">{} UTC</time>').format(text, text[:16].replace("T", " "))


def short(value: object) -> str:
    """The first characters of a hash or an id, enough to tell it from others."""
    text = str(value)
    return f"{text[:18]}…" if len(text) > 20 else text


def cell(value: object) -> Markup:
    """A value of a row as text.

    Null is not the empty text, nested values are JSON, and signs that nobody sees, or that turn text, are named.
    """
    if value is None:
        return Markup('<span class="null">null</span>')
    if isinstance(value, bool):
        return escape("true" if value else "false")
    if isinstance(value, dict | list):
        return _named_signs(_json_text(value))
    return _named_signs(str(value))


def _named_signs(text: str) -> Markup:
    if not _UNSEEN.search(text):
        return escape(text)
    pieces = (
        Markup('<span class="sign">U+{}</span>').format(f"{ord(piece):04X}")
        if _UNSEEN.fullmatch(piece)
        else escape(piece)
        for piece in _UNSEEN.split(text)
    )
    return Markup("").join(pieces)


def _json_text(value: Any) -> str:

    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _ago(seconds: float) -> str:
    ahead = seconds < 0
    span = abs(seconds)
    for length, unit in _SPANS:
        if span >= length:
            count = int(span // length)
            text = f"{count} {unit}{'s' if count > 1 else ''}"
            return f"in {text}" if ahead else f"{text} ago"
    return "just now" if not ahead else "in a moment"
