"""Rows that cannot be read, kept apart from the others.

Owns the file of rejected rows: one JSON object a line with `file`, `line`, `position` (of the first character in its line), `field`,
`reason` and `raw`, the row as it came. Invariant: a row is either read or in this file; more than the request admits are an error that
writes nothing. Not here: which rows are wrong (the readers), what becomes of the file (`usecases.ingestion.quarantine`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from odfabric.errors import InvalidData, LimitExceeded

_RAW_CHARACTERS_MAX = 100_000
"""Of a longer row the beginning is kept."""


@dataclass(slots=True)
class RejectedRows:
    """The file at `path`; it is there from the first rejected row on."""

    path: Path
    rows_max: int
    count: int = 0
    _stream: TextIO | None = field(default=None, repr=False)

    def add(self, wrong: InvalidData, raw: str) -> None:
        """Keeps a row with what is wrong with it. Raises LimitExceeded for one too many."""
        if self.count >= self.rows_max:
            raise LimitExceeded(
                f"More than {self.rows_max} rows cannot be read; the last one: {wrong.message}",
                limit="rejected_rows_max",
                maximum=self.rows_max,
                place=wrong.place,
            )
        place = wrong.place
        kept = {
            "file": place.file,
            "line": place.line,
            "position": place.column,
            "field": place.field,
            "reason": wrong.message if wrong.hint is None else f"{wrong.message} ({wrong.hint})",
            "raw": raw[:_RAW_CHARACTERS_MAX],
        }
        if self._stream is None:
            self._stream = self.path.open("w", encoding="utf-8")
        self._stream.write(json.dumps(kept, ensure_ascii=False) + "\n")
        self.count += 1

    def close(self) -> None:
        """All is in the file."""
        if self._stream is not None:
            self._stream.close()
