"""Columns that an ingest has stored under another name, as its block gives them.

Owns the attribute of AddData by which everybody who reads the chain learns it, the answer of the push among them. Invariant: the attribute
of anybody's block is read or passed over, never an error. Not here: which columns are renamed (the engine).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from odfabric.model.engine import RenamedColumn

ATTRIBUTE = "odfabric.dev/renamed-columns"


def renamed_attributes(renamed: Sequence[RenamedColumn]) -> dict[str, object]:
    """The attributes of a block whose rows have such columns; none if there are none."""
    listed = [{"from": one.name, "to": one.stored_as} for one in renamed]
    return {ATTRIBUTE: listed} if listed else {}


def renamed_columns(attributes: Mapping[str, Any]) -> tuple[RenamedColumn, ...]:
    """What the attributes of a block say; nothing where they are of another form."""
    listed = attributes.get(ATTRIBUTE)
    found: list[RenamedColumn] = []
    for item in listed if isinstance(listed, list) else ():
        match item:
            case {"from": str(name), "to": str(stored_as)}:
                found.append(RenamedColumn(name=name, stored_as=stored_as))
            case _:
                return ()
    return tuple(found)
