"""What the commands print: one JSON document, or tables and lines for people.

Invariant: with `-o json` standard output holds exactly one JSON document; everything for people goes to standard error. Text that
others wrote is shown literally: control characters are escaped, nothing drives the terminal. A pipe gets no decoration.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from odfabric.cli.tables import printable, shorten, table_lines
from odfabric.model.operation import OperationType

PIPE_PROGRESS_S_MIN = 5.0
"""Into a pipe, progress is reported no more often than this: a log wants signs of life, not a film."""

_OPERATION_COLUMN = 1
_CLEAR_LINE = "\r\x1b[2K"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class Output:
    """Where and how a command prints."""

    def __init__(self, *, as_json: bool, seconds: Callable[[], float] = time.monotonic) -> None:
        """`seconds` is a clock that only moves forward."""
        self.as_json = as_json
        self._seconds = seconds
        self._told_at = seconds()
        self._shown = ""

    def document(self, value: object) -> None:
        """The result as JSON, whatever the format."""
        self._print(json.dumps(value, ensure_ascii=False, indent=None if self.as_json else 2))

    def rows(self, rows: Sequence[Mapping[str, object]], *, title: str | None = None) -> None:
        """A table, or an array of objects."""
        if self.as_json:
            self.document(list(rows))
            return
        if not rows:
            self.say("nothing to show")
            return
        on_terminal = sys.stdout.isatty()
        if title is not None:
            self._print("\n" + literal(title))
        heading, *lines = table_lines(rows, width=shutil.get_terminal_size().columns if on_terminal else None)
        self._print("\n".join([f"{_BOLD}{heading}{_PLAIN}" if on_terminal else heading, *lines]))

    def stored_rows(self, rows: Sequence[Mapping[str, object]], *, title: str | None = None) -> None:
        """Rows of a dataset: as stored for programs, operations in words for people."""
        self.rows(rows if self.as_json else [_in_words(row) for row in rows], title=title)

    def result(self, value: object, line: str) -> None:
        """A result: the document, or a line that says the same."""
        if self.as_json:
            self.document(value)
        else:
            self._print(literal(line))

    def text(self, text: str) -> None:
        """A result that is text already, such as YAML; not for `-o json`."""
        if text:
            self._print(literal(text.rstrip("\n")))

    def say(self, line: str) -> None:
        """Something for people only."""
        self.clear()
        self._told_at = self._seconds()
        sys.stderr.write(literal(line) + "\n")
        sys.stderr.flush()

    def progress(self, line: str) -> None:
        """Show what is being done.

        A line that the next one replaces on a terminal; a line now and then in a pipe.
        """
        if line == self._shown:
            return
        if sys.stderr.isatty():
            self._shown = line
            width = shutil.get_terminal_size().columns
            sys.stderr.write(_CLEAR_LINE + shorten(printable(line), width - 1))
            sys.stderr.flush()
        elif not self.as_json and self._seconds() - self._told_at >= PIPE_PROGRESS_S_MIN:
            self.say(f"odf: at work: {line}")
            self._shown = line

    def clear(self) -> None:
        """Take the progress line off the terminal."""
        if self._shown and sys.stderr.isatty():
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
        self._shown = ""

    def _print(self, text: str) -> None:
        self.clear()
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


class WarningLines(logging.Handler):
    """Warnings of the library, one line each, such as an attempt that is repeated."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        clear = _CLEAR_LINE if sys.stderr.isatty() else ""
        sys.stderr.write(f"{clear}odf: {record.levelname.lower()}: {printable(record.getMessage())}\n")
        sys.stderr.flush()


def _in_words(row: Mapping[str, object]) -> dict[str, object]:
    """A stored row with the name of its operation, the second column of each dataset.

    Whatever its vocabulary calls that column.
    """
    shown = dict(row)
    name = list(shown)[_OPERATION_COLUMN]
    value = shown[name]
    if isinstance(value, int) and value in set(OperationType):
        shown[name] = OperationType(value).word
    return shown


def literal(text: str) -> str:
    """Text as it is: control characters escaped, line feeds kept."""
    return printable(text, keep="\n")


def counted(number: int, what: str) -> str:
    """E.g. "1 row", "2 rows"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
