"""Which rules a chain makes for the rows of a slice.

Owns what follows for a slice from the chain before its block. Two writings of the reference are not what they seem: compaction gives
all blocks of a chain one new system time and leaves that of the rows as it was, and a query that selects the operation is taken
literally, so that a filter may keep one half of a correction. Not here: reading rows (`formats.slices.slice_check`).
Source: specification, "Derivative Transformations"; docs/engine.md#columns-of-inputs-and-output;
docs/engine.md#compatibility-with-the-reference; RFC-015.
"""

from __future__ import annotations

import re

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.formats.slices.slice_check import SliceRules
from odfabric.model.data_schema import DataSchema
from odfabric.model.instant import Instant
from odfabric.model.metadata import DatasetKind, OffsetInterval, Transform

_MAY_SELECT_ALL = re.compile(r"(?:\b(?:select|distinct|all)|[,./])\s*\*|\btable\b|\|>", re.IGNORECASE)
"""Text of a query that perhaps selects columns without their names; a multiplication and `count(*)` are none."""


def slice_rules(
    before: ChainState,
    interval: OffsetInterval,
    *,
    system_time: Instant,
    data_schema: DataSchema | None = None,
) -> SliceRules:
    """The rules for a slice of a block on top of `before`.

    `data_schema` is the schema if the chain has none yet.

    Raises what a legacy schema raises that does not decode.
    """
    is_root = before.kind is DatasetKind.ROOT
    return SliceRules(
        interval=interval,
        vocabulary=before.vocabulary,
        data_schema=current_schema(before) or data_schema,
        system_time=system_time,
        older_rows=is_root and before.system_time == system_time,
        event_time_required=is_root,
        whole_corrections=not _may_select_operations(before),
    )


def _may_select_operations(state: ChainState) -> bool:
    """Whether a derivative's transform may state operations of its records itself."""
    if state.transform is None:
        return False
    text = _output_text(state.transform.event.transform)
    name = re.escape(state.vocabulary.operation_type)
    named = re.search(rf"(?<!\w){name}(?!\w)", text, re.IGNORECASE)
    return named is not None or _MAY_SELECT_ALL.search(text) is not None or "select" not in text.casefold()


def _output_text(transform: Transform) -> str:
    """The query that gives the output's columns.

    Whatever steps before it select, it has to select again.
    """
    return transform.queries[-1].query if transform.queries else transform.query or ""
