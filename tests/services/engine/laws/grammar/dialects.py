"""Query text in three dialects: the engine's, and judges' Spark SQL and DuckDB.

Owns the marks in a text: `[[either|spark|duck]]`, `[[final|AND|end|end in DuckDB]]` for what waits for the watermark (the
engine finds that out by itself), `[[then|columns]]` for the completed order of a window (so too), `[[judged|text]]` for more of the kind, `[[step|name]]` for an
earlier statement. Invariant: without marks a text means the same in all dialects.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from enum import Enum

_MARK = re.compile(r"\[\[([^\[\]]*)\]\]")
_UNKNOWN = "\x00"

END_OF_SESSION = "if(count(*) > 0, session_window.end, NULL)"
"""For Spark as a judge: a condition on the end alone it puts below the merging of sessions, and takes rows of one for several."""


class Dialect(Enum):
    """For whom a text is."""

    ENGINE = "engine"
    SPARK = "spark"
    DUCK = "duck"


def either(spark: str, duck: str | None) -> str:
    """Two texts of one meaning; None where DuckDB has no such thing, or means another."""
    return f"[[either|{spark}|{_UNKNOWN if duck is None else duck}]]"


def final(word: str, end: str, duck: str | None = "") -> str:
    """A condition for judges only: what ends at `end` is final.

    `word` puts it in its place: WHERE, HAVING or AND.
    """
    return f"[[final|{word}|{end}|{_UNKNOWN if duck is None else duck or end}]]"


def then(*columns: str) -> str:
    """For judges only: further columns of an ORDER BY."""
    return f"[[then|{', '.join(columns)}]]"


def judged(text: str) -> str:
    """For judges only."""
    return f"[[judged|{text}]]"


def step(name: str) -> str:
    """An earlier statement, for judges what it says."""
    return f"[[step|{name}]]"


def rendered(text: str, dialect: Dialect, *, closed_us: int | None, steps: Mapping[str, str]) -> str | None:
    """The text in a dialect when the watermark is `closed_us`.

    None if the dialect cannot say it.
    """
    handlers: dict[str, Callable[..., str]] = {
        "either": lambda spark, duck: duck if dialect is Dialect.DUCK else spark,
        "final": lambda word, end, duck: _final(dialect, word, end, duck, closed_us),
        "judged": lambda more: "" if dialect is Dialect.ENGINE else more,
        "then": lambda columns: "" if dialect is Dialect.ENGINE else f", {columns}",
        "step": lambda name: name if dialect is Dialect.ENGINE else f"({steps[name]})",
    }
    while (mark := _MARK.search(text)) is not None:
        kind, *parts = mark.group(1).split("|")
        text = text[: mark.start()] + handlers[kind](*parts) + text[mark.end() :]
    return None if _UNKNOWN in text else text


def _final(dialect: Dialect, word: str, end: str, duck: str, closed_us: int | None) -> str:
    if dialect is Dialect.ENGINE:
        return ""
    if closed_us is None:
        return f"{word} FALSE"
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=closed_us)  # noqa: DTZ001 - text for SQL in UTC
    return f"{word} {duck if dialect is Dialect.DUCK else end} <= TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}'"
