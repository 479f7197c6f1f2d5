"""Values of rows in messages.

Owns how a value is written for people, and how long it may be. Invariant: every value has a text. Not here: which values are told
(`failed_rows`, `group_versions`).
"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

_CHARACTERS_MAX = 60


def shown_value(scalar: pa.Scalar) -> str:
    """A value as SQL has it, about, and cut."""
    try:
        return cut(_text(scalar.as_py()), _CHARACTERS_MAX)
    except (ValueError, OverflowError):  # a date of the year 10000, for instance
        return f"{scalar.type} out of range"


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
