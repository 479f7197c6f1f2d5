"""Rows as lines of text for people.

Owns widths, shortening and what a cell shows. Invariant: nothing is folded. Into a pipe (`width` None) every value goes whole, identifiers
apart; on a terminal values are shortened until a row fits its line, and where columns are too many for that, rows become records of
one value a line. Pure; not here: where lines go (`output`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from rich.cells import cell_len, set_cell_size

CELL_WIDTH_MIN = 12
"""To how many characters a column may be squeezed before rows become records."""
GAP = "  "
ELLIPSIS = "…"

_IDENTIFIER = re.compile(r"(did:odf:)?f[0-9a-f]{40,}")
_IDENTIFIER_HEAD, _IDENTIFIER_TAIL = 9, 4

Rows = Sequence[Mapping[str, object]]


def table_lines(rows: Rows, *, width: int | None) -> list[str]:
    """A heading and a line for each row, or records.

    `width` is the terminal's, None means a pipe. `rows` is not empty.
    """
    names = list(rows[0])
    heading = [printable(name) for name in names]
    cells = [[cell(row.get(name)) for name in names] for row in rows]
    widths = [max(cell_len(line[index]) for line in [heading, *cells]) for index in range(len(names))]
    if width is not None:
        fitted = fit(widths, width - len(GAP) * (len(names) - 1))
        if fitted is None:
            return _records(heading, cells, width=width)
        widths = fitted
    right = [is_number(rows[0][name]) for name in names]
    return [
        GAP.join(
            _place(text, width, right=to_right) for text, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [heading, *cells]
    ]


def fit(widths: Sequence[int], total: int) -> list[int] | None:
    """Widths that add up to no more than `total`, the widest made narrower first.

    None if even narrow columns do not fit.
    """
    if sum(widths) <= total:
        return list(widths)
    if sum(min(width, CELL_WIDTH_MIN) for width in widths) > total:
        return None
    cap = max(cap for cap in range(CELL_WIDTH_MIN, max(widths)) if sum(min(width, cap) for width in widths) <= total)
    return [min(width, cap) for width in widths]


def cell(value: object) -> str:
    """A value on one line; identifiers (DIDs and hashes) without their middle."""
    if value is None:
        return ""
    text = printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if _IDENTIFIER.fullmatch(text):
        head = _IDENTIFIER_HEAD + (len("did:odf:") if text.startswith("did:") else 0)
        return f"{text[:head]}{ELLIPSIS}{text[-_IDENTIFIER_TAIL:]}"
    return text


def printable(text: str, *, keep: str = "") -> str:
    """Text with control characters escaped, except those in `keep`."""
    return "".join(char if char.isprintable() or char in keep else repr(char)[1:-1] for char in text)


def is_number(value: object) -> bool:
    """Whether a value stands to the right of its column."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _place(text: str, width: int, *, right: bool) -> str:
    text = shorten(text, width)
    return " " * (width - cell_len(text)) + text if right else set_cell_size(text, width)


def shorten(text: str, width: int) -> str:
    """Text of at most `width` columns, its end given up for an ellipsis."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + ELLIPSIS


def _records(heading: Sequence[str], cells: Sequence[Sequence[str]], *, width: int) -> list[str]:
    label = min(max(map(cell_len, heading)), width // 3)
    lines: list[str] = []
    for number, row in enumerate(cells, start=1):
        lines.append(f"-- {number} --")
        lines += [
            shorten(f"{set_cell_size(shorten(name, label), label)}{GAP}{text}".rstrip(), width)
            for name, text in zip(heading, row, strict=True)
        ]
    return lines
