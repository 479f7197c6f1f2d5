"""A row that cannot be read, and the lines that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from odfabric.errors import InvalidData


@dataclass(frozen=True, slots=True)
class WrongRow:
    """Lines `line` to `end` (exclusive; None: to the end) of a file, from 1."""

    file: Path
    line: int
    end: int | None
    error: InvalidData
