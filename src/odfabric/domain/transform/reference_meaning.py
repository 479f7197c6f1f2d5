"""What a row-wise transform means to the reference.

Owns how that is said to our engine: the reference gives every record of a query that does not select `op` the operation 0, while ours
carries those of the input. Invariant: only meaning, no rows; of queries that are not row-wise the engine refuses the result, for they
have no such meaning here. Source: specification, "Engine Contract"; docs/engine.md#operations.
"""

from __future__ import annotations

from dataclasses import replace

from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.operation import OperationType

_AS_WRITTEN = "as_written"


def in_the_reference(transform: TransformSql, *, operation: str) -> TransformSql:
    """The transform that has for ours the meaning that this one has for the reference.

    `operation` is the output's column of operations.
    """
    *early, last = transform.queries or (SqlQueryStep(query=transform.query or ""),)
    alias = _AS_WRITTEN
    while alias in [step.alias for step in early]:
        alias += "_"
    column = operation.replace("`", "``")
    output = SqlQueryStep(query=f"SELECT {OperationType.APPEND.value} AS `{column}`, * FROM {alias}")
    return replace(transform, query=None, queries=(*early, SqlQueryStep(alias=alias, query=last.query), output))
