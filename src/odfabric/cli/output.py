"""What the commands print: one JSON document, or tables and lines for people.

Invariant: with `-o json` standard output holds exactly one JSON document; everything for people goes to standard error. Text that
others wrote is shown literally: control characters are escaped, nothing drives the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

CELL_CHARACTERS_MAX = 60


class Output:
    """Where and how a command prints."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._out = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self._err = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._shown = ""

    def document(self, value: object) -> None:
        """The result as JSON, whatever the format."""
        sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=None if self.as_json else 2) + "\n")

    def rows(self, rows: Sequence[Mapping[str, object]], *, title: str | None = None) -> None:
        """A table, or an array of objects."""
        if self.as_json:
            self.document(list(rows))
            return
        if not rows:
            self.say("nothing to show")
            return
        table = Table(title=literal(title) if title else None, box=None, pad_edge=False, header_style="bold")
        for name in rows[0]:
            table.add_column(literal(name), overflow="fold", justify="right" if _is_number(rows[0][name]) else "left")
        for row in rows:
            table.add_row(*(_cell(value) for value in row.values()))
        self._out.print(table)

    def result(self, value: object, line: str) -> None:
        """A result: the document, or a line that says the same."""
        if self.as_json:
            self.document(value)
        else:
            self._out.print(literal(line))

    def say(self, line: str) -> None:
        """Something for people only."""
        self._clear()
        self._err.print(literal(line))

    def progress(self, line: str) -> None:
        """A line that the next one replaces on a terminal; in a pipe a line of its own whenever it changes."""
        if line == self._shown:
            return
        self._shown = line
        if self._err.is_terminal:
            sys.stderr.write(f"\r\x1b[2K{literal(line).plain[: self._err.width - 1]}")
            sys.stderr.flush()
        elif not self.as_json:
            self._err.print(literal(line))

    def _clear(self) -> None:
        if self._shown and self._err.is_terminal:
            sys.stderr.write("\r\x1b[2K")
        self._shown = ""


def literal(text: str) -> Text:
    """Text as it is: no markup, control characters escaped (line feeds kept)."""
    return Text("".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text))


def _cell(value: object) -> Text:
    if value is None:
        return Text("", style="dim")
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(shown) > CELL_CHARACTERS_MAX:
        shown = f"{shown[: CELL_CHARACTERS_MAX - 9]}…{shown[-8:]}"
    return literal(shown)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
