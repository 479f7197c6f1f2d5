"""Time formats in letters (Java, Spark, moment.js) to strftime directives.

Owns the translation, which messages suggest; nothing is read by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_RUN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.DOTALL)
_LETTERS: dict[str, Callable[[int], str | None]] = {
    "y": lambda count: "%y" if count == 2 else "%Y",
    "u": lambda count: "%y" if count == 2 else "%Y",
    "Y": lambda count: "%y" if count == 2 else "%Y",
    "M": lambda count: "%m" if count <= 2 else "%b" if count == 3 else "%B",
    "L": lambda count: "%m" if count <= 2 else "%b" if count == 3 else "%B",
    "d": lambda count: "%d" if count <= 2 else None,
    "H": lambda _: "%H",
    "k": lambda _: "%H",
    "h": lambda _: "%I",
    "K": lambda _: "%I",
    "m": lambda count: "%M" if count <= 2 else None,
    "s": lambda count: "%S" if count <= 2 else None,
    "S": lambda _: "%f",
    "n": lambda _: "%f",
    "a": lambda _: "%p",
    "A": lambda _: "%p",
    "E": lambda count: "%a" if count <= 3 else "%A",
    "X": lambda _: "%z",
    "x": lambda _: "%z",
    "Z": lambda _: "%z",
    "z": lambda _: "%Z",
    "T": lambda count: "T" if count == 1 else None,
}


def strftime_of_java(text: str) -> str | None:
    """The same format in directives.

    None if letters in it mean nothing to Java, or what no directive says.
    """
    # Java counts days of the year by D, moment.js those of the month, and it writes years as YYYY.
    day = "%d" if "Y" in text else "%j"
    result = ""
    for match in _RUN.finditer(text):
        quoted, letter, other = match.groups()
        if quoted is not None:
            result += quoted.replace("''", "'") or "'"
        elif letter is None:
            result += other
        else:
            found = day if letter == "D" else _LETTERS[letter](len(match[0])) if letter in _LETTERS else None
            if found is None:
                return None
            result += found
    return result
