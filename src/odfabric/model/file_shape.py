"""How a file of rows is written: its format, and CSV's separator and header."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FileFormat(Enum):
    """Formats of a file."""

    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShape:
    """A format with its choices; `separator` and `header` count for CSV alone."""

    format: FileFormat
    separator: str = ","
    header: bool = True
