"""The storage library's scenarios as data: every file of ODF_PERSIST_CASES.

The default is those beside the tests.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

CASES = Path(__file__).parents[1] / "cases"
DEFAULT = os.pathsep.join(str(CASES / name) for name in ("persist-cases.json", "persist-ours.json"))


@cache
def documents() -> tuple[dict[str, Any], ...]:
    """Each file."""
    names = os.environ.get("ODF_PERSIST_CASES", DEFAULT).split(os.pathsep)
    return tuple(json.loads(Path(name).read_text()) for name in names)


def steps(section: str) -> list[list[dict[str, Any]]]:
    """The list of steps of a conformance section, one for each file."""
    return [document[section] for document in documents() if section in document]
