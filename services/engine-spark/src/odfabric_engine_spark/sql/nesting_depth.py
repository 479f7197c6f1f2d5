"""How deeply the text of a statement is nested, judged before it is parsed.

Owns a look at brackets and CASE .. END, nothing more of SQL. Spark's parser takes seconds for a thousand levels and cannot be stopped, so
that the engine would have to give itself up. Invariant: ordinary SQL never counts as deeper than it is; texts, names in backticks and
comments end where they end for the parser. What slips through meets the limits of the call. Source: docs/engine.md#what-sql-may-run.
"""

from __future__ import annotations

import re

from odfabric.errors import InvalidQuery, Place

# A text or comment without an end takes all that follows, where the parser stops anyway: each character is looked at once.
_WORDS = re.compile(
    r"""
      \br'[^']*+(?:'|\Z) | \br"[^"]*+(?:"|\Z)       # raw texts have no escapes
    | '(?:[^'\\]|\\.)*+(?:'|\\?\Z) | "(?:[^"\\]|\\.)*+(?:"|\\?\Z) | `[^`]*+(?:`|\Z)
    | --[^\n]*+ | /\*(?!\+)(?:[^*]|\*(?!/))*+(?:\*/|\Z)  # hints are parsed, other comments are not
    | (?P<opens>[(\[] | \bcase\b | \b(?:array|map|struct)\s*<)
    | (?P<closes>[)\]>] | (?<!\.)\bend\b)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_CLOSED_BY = {"(": ")", "[": "]", "<": ">", "e": "end"}
"""What ends a level, by the last character of what opens it."""


def too_deep(text: str, levels_max: int) -> InvalidQuery | None:
    """The error of a statement nested too deep, at its first such place."""
    awaited: list[str] = []
    for word in _WORDS.finditer(text):
        if word["opens"] is not None:
            awaited.append(_CLOSED_BY[word["opens"][-1].lower()])
            if len(awaited) > levels_max:
                return _problem(text, word.start(), levels_max)
        elif word["closes"] is not None:
            _close(awaited, word["closes"].lower())
    return None


def _close(awaited: list[str], found: str) -> None:
    """End the innermost level that this may end.

    A comparison looks like the end of a type, or like its beginning.
    """
    while awaited and awaited[-1] == ">" != found:
        awaited.pop()
    if awaited and awaited[-1] == found:
        awaited.pop()


def _problem(text: str, at: int, levels_max: int) -> InvalidQuery:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return InvalidQuery(
        f"the query is nested too deeply: more than {levels_max} levels",
        place=Place(rule="too-deep", line=line, column=column),
        hint="write it with fewer levels, or in steps",
    )
