"""Calls of table functions over datasets, found in the text of a query.

Owns how a call is written: literal arguments only, texts in single quotes or plain or quoted names. Invariant: two texts of the same call
are equal values. Whether a text is a call at all is the parser's to say: what is found here may stand in a comment or in a text. Source:
docs/reference/time.md, docs/reference/why.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from odfabric.model.table_function import TableCall

TABLE_FUNCTIONS: Mapping[str, str] = {
    "as_at": "as_at('account/dataset', '2026-01-31T12:00:00Z'), or with a block's number or hash",
    "as_of": "as_of('account/dataset', '2026-01-31T12:00:00Z'), and as a third argument the time or block of as_at",
    "changes": "changes('account/dataset', 'from', 'to'), each a time or a block's number or hash; without the last up to the newest",
    "to_table": "to_table('account/dataset')",
    "why": "why('account/dataset', 17) with the offset of a record, then 'column' for one cell, then a number of datasets or 'all'",
}
"""Table functions whose first argument is a dataset, and how each is written."""

_ARGUMENT = r"""(?:'[^'\\\n]*'|`[^`\n]+`|"[^"\\\n]+"|[A-Za-z_]\w*|\d{1,19})"""
_ARGUMENTS = re.compile(_ARGUMENT, re.ASCII)
# No blanks are sought twice in a row, so a text of blanks takes time in proportion to it.
_CALLS = re.compile(
    rf"(?<![\w.`])(?P<name>{'|'.join(TABLE_FUNCTIONS)})\s*\(\s*(?:(?P<arguments>{_ARGUMENT}(?:\s*,\s*{_ARGUMENT})*)\s*)?\)",
    re.IGNORECASE | re.ASCII,
)
_QUOTES = "'`\""


@dataclass(frozen=True, slots=True)
class PlacedCall:
    """A call and its range `[begin, end)` of characters in the text."""

    call: TableCall
    begin: int
    end: int


def calls_in(sql: str) -> Iterator[PlacedCall]:
    """Whatever looks like a call of a table function over datasets, in order."""
    for found in _CALLS.finditer(sql):
        yield _placed(found)


def call_at(sql: str, begin: int) -> PlacedCall | None:
    """The call that begins at a character.

    None if nothing there is one with literal arguments.
    """
    found = _CALLS.match(sql, begin)
    return None if found is None else _placed(found)


def _placed(found: re.Match[str]) -> PlacedCall:
    written = _ARGUMENTS.findall(found["arguments"] or "")
    arguments = tuple(each[1:-1] if each[0] in _QUOTES else each for each in written)
    return PlacedCall(TableCall(found["name"].lower(), arguments), found.start(), found.end())
