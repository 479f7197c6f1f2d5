"""What became of the rows of an ingest, as its block gives it.

Owns the attributes of AddData by which everybody who reads the chain learns how many rows were added, corrected, retracted or known already,
and which fields of the input no column was declared for; the answer of a push is made of them. Invariant: the attributes of anybody's
block are read or passed over, never an error. Not here: counting (the engine).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from odfabric.model.engine import RowChanges, UndeclaredField
from odfabric.model.intake import RejectedRows
from odfabric.model.source import MergeStrategy, MergeStrategyAppend

CHANGES = "odfabric.dev/row-changes"
UNDECLARED = "odfabric.dev/undeclared-fields"
REJECTED = "odfabric.dev/rejected-rows"
ADDED_COLUMNS = "odfabric.dev/added-columns"


def change_attributes(
    changes: RowChanges, undeclared: Sequence[UndeclaredField], *, merge: MergeStrategy
) -> dict[str, object]:
    """The attributes of a block.

    A strategy that only ever adds rows leaves nothing to be said of changes.
    """
    found: dict[str, object] = {} if isinstance(merge, MergeStrategyAppend) else {CHANGES: changes_value(changes)}
    return {**found, UNDECLARED: undeclared_value(undeclared)} if undeclared else found


def changes_value(changes: RowChanges) -> dict[str, int]:
    """As JSON: `added`, `corrected`, `retracted`.

    And `unchanged` if that was counted; `knownKeys` if there are any.
    """
    value = {"added": changes.added, "corrected": changes.corrected, "retracted": changes.retracted}
    if changes.unchanged is not None:
        value["unchanged"] = changes.unchanged
    return {**value, "knownKeys": changes.known_keys} if changes.known_keys else value


def undeclared_value(undeclared: Sequence[UndeclaredField]) -> list[dict[str, object]]:
    """As JSON: `name` and `rows` of each."""
    return [{"name": one.name, "rows": one.rows} for one in undeclared]


def row_changes(attributes: Mapping[str, Any], *, records: int) -> RowChanges:
    """What the attributes of a block with so many records say.

    That all were added where they say nothing.
    """
    match attributes.get(CHANGES):
        case {"added": int(added), "corrected": int(corrected), "retracted": int(retracted), **others}:
            return RowChanges(
                added=added,
                corrected=corrected,
                retracted=retracted,
                unchanged=_whole(others.get("unchanged")),
                known_keys=_whole(others.get("knownKeys", 0)),
            )
        case _:
            return RowChanges(added=records)


def undeclared_fields(attributes: Mapping[str, Any]) -> tuple[UndeclaredField, ...]:
    """What the attributes of a block say; nothing where they are of another form."""
    listed = attributes.get(UNDECLARED)
    found: list[UndeclaredField] = []
    for item in listed if isinstance(listed, list) else ():
        match item:
            case {"name": str(name), "rows": int(rows)}:
                found.append(UndeclaredField(name=name, rows=rows))
            case _:
                return ()
    return tuple(found)


def rejected_attributes(rejected: RejectedRows | None) -> dict[str, object]:
    """The attributes of a block beside which rows were rejected.

    None if there were none.
    """
    return {} if rejected is None else {REJECTED: rejected_value(rejected)}


def rejected_value(rejected: RejectedRows) -> dict[str, object]:
    """As JSON: `rows` and `dataset`."""
    return {"rows": rejected.rows, "dataset": rejected.dataset}


def rejected_rows(attributes: Mapping[str, Any]) -> RejectedRows | None:
    """What the attributes of a block say; None where they say nothing."""
    match attributes.get(REJECTED):
        case {"rows": int(rows), "dataset": str(dataset)}:
            return RejectedRows(rows=rows, dataset=dataset)
        case _:
            return None


def added_columns(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """Columns that the dataset got with a block, as its attributes say."""
    listed = attributes.get(ADDED_COLUMNS)
    return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()


def added_up(one: RowChanges, other: RowChanges) -> RowChanges:
    """Of two ingests, one after the other."""
    return RowChanges(
        added=one.added + other.added,
        corrected=one.corrected + other.corrected,
        retracted=one.retracted + other.retracted,
        unchanged=_sum(one.unchanged, other.unchanged),
        known_keys=_sum(one.known_keys, other.known_keys),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
