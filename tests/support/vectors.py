"""Wire format vectors: the tests' copy, or ODF_VECTORS (a list like PATH)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

OWN_COPY = Path(__file__).parents[1] / "cases" / "vectors.json"


def vector_files() -> list[Path]:
    """Files to be read, all of which must match."""
    named = os.environ.get("ODF_VECTORS")
    return [Path(part) for part in named.split(os.pathsep) if part] if named else [OWN_COPY]


def vectors(section: str) -> list[Any]:
    """The entries of a list section, over all files."""
    found: list[Any] = []
    for path in vector_files():
        found += json.loads(path.read_text()).get(section, [])
    return found


def vector_sections(section: str) -> list[Any]:
    """The section of each file that has it, for sections that are not lists."""
    return [content[section] for path in vector_files() if section in (content := json.loads(path.read_text()))]
