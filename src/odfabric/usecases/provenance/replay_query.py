"""The query of a block over the witnesses of a record alone, as SQL for anybody.

Invariant: it reads the named records of the inputs and nothing else, so running it shows the row again, here or on another node that has
these records. Not here: the check that every answer goes through (the engine's).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from odfabric.domain.transform.transform_plan import PlannedInput, TransformPlan
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.usecases.provenance.trace_records import Explanation, RowsOfInput

AliasOf: TypeAlias = Callable[[DatasetId], str | None]
"""The name of a dataset for the caller, None if they may not read it."""

TEXT_MAX = 20_000
"""Characters; a longer one helps nobody."""


def replay_query(plan: TransformPlan, explanation: Explanation, alias_of: AliasOf) -> str | None:
    """The statement; None where inputs are hidden or have too many records to name."""
    if explanation.hides or any(one.more for one in explanation.witnesses):
        return None
    by_input = {one.input: one for one in explanation.witnesses}
    tables = []
    for number, planned in enumerate(plan.inputs):
        alias = alias_of(planned.dataset_id)
        if alias is None:
            return None
        tables.append(f"{_quoted(planned.query_alias)} AS (\n  {_records(planned, alias, by_input.get(number))}\n)")
    text = _statement(plan.transform, tables)
    return text if len(text) <= TEXT_MAX else None


def _statement(transform: TransformSql, tables: Sequence[str]) -> str:
    steps = transform.queries or ()
    if not steps:
        return f"WITH {', '.join(tables)}\n{transform.query or ''}"
    *early, last = steps
    named = [f"{_quoted(step.alias or '')} AS (\n{step.query}\n)" for step in early]
    return f"WITH {', '.join([*tables, *named])}\n{last.query}"


def _records(planned: PlannedInput, alias: str, rows: RowsOfInput | None) -> str:
    vocabulary = planned.vocabulary
    given = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time)
    columns = ", ".join(_quoted(each.name) for each in planned.data_schema.fields if each.name not in given)
    return f"SELECT {columns} FROM {_quoted(alias)} WHERE {_condition(vocabulary.offset, rows.ranges if rows else ())}"


def _condition(offset: str, ranges: Sequence[OffsetRange]) -> str:
    name = _quoted(offset)
    parts = [
        f"{name} = {one.begin}" if one.rows == 1 else f"{name} BETWEEN {one.begin} AND {one.end - 1}" for one in ranges
    ]
    return " OR ".join(parts) or "false"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
