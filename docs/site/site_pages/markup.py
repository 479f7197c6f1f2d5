"""Markdown of the reference pages: texts and tables of contracts, as MyST reads them.

Owns escaping: texts of contracts are plain with code between backticks, and nothing in them becomes markup by accident.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`+[^`]+`+)")
_SPECIAL = re.compile(r"([\\*_\[\]<>#$])")


def plain(text: str) -> str:
    """A text of a contract on one line; code in backticks stays code."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)


def paragraphs(text: str) -> str:
    """A text of several paragraphs."""
    return "\n\n".join(plain(part) for part in text.split("\n\n") if part.strip())


def code(text: str) -> str:
    """Something literal."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; an empty text if there is no row."""
    lines = [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows]
    if not lines:
        return ""
    return "\n".join(f"| {line} |" for line in (" | ".join(head), " | ".join("---" for _ in head), *lines)) + "\n"


def section(level: int, title: str, target: str, *blocks: str) -> str:
    """A heading that `#target` leads to from every page, and what is below it."""
    return "\n\n".join([f"({target})=\n{'#' * level} {title}", *(block.rstrip() for block in blocks if block)]) + "\n\n"
