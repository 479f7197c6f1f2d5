"""Values of rows as error messages show them.

Owns how a value is written for people, and how long it may be. Invariant: every value has a text. Not here: which values are reported
(`failing_rows`, `group_versions`).
"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
from pyarrow import types

_CHARACTERS_MAX = 60
_YEAR_S = 31_556_952
"""The mean of the calendar."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def shown_value(scalar: pa.Scalar) -> str:
    """A value as SQL has it, about, and cut."""
    try:
        return cut(_text(scalar.as_py()), _CHARACTERS_MAX)
    except (ValueError, OverflowError):  # a date of the year 10000, for instance
        seconds = _seconds(scalar)
        return f"{scalar.type} out of range" if seconds is None else f"about the year {1970 + seconds // _YEAR_S}"


def _seconds(scalar: pa.Scalar) -> int | None:
    """Seconds since 1970 of an instant or day beyond Python's range, else None."""
    if types.is_date32(scalar.type):
        return int(scalar.value) * 86_400
    return int(scalar.value) // _PER_SECOND[scalar.type.unit] if types.is_timestamp(scalar.type) else None


def cut(text: str, characters: int) -> str:
    """The beginning of a text that is longer."""
    return text if len(text) <= characters else f"{text[: characters - 2]}.."


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_text(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dt.date):
        return value.isoformat().replace("+00:00", "Z")
    return repr(value) if isinstance(value, str) else str(value)
