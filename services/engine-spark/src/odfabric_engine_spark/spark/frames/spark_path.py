"""A file as Spark's readers expect it: they take a path for a pattern.

Invariant: what is reported names this file and no other. Paths to write to are taken as they are.
"""

from __future__ import annotations

import re
from pathlib import Path

_MEANS_SOMETHING = re.compile(r"[{}\[\],*?\\]")
_MAKES_A_PATTERN = re.compile(r"[{}\[\]*?\\]")


def spark_path(file: Path) -> str:
    """The pattern that only this file matches.

    Spark's option against patterns reads several files several times each.
    """
    path = str(file)
    return _MEANS_SOMETHING.sub(r"\\\g<0>", path) if _MAKES_A_PATTERN.search(path) else path
