"""What replacing a transform by another means for a dataset that has rows.

Owns the verdict: the same, a migration, or an output that no longer fits. It looks at queries and schemas alone; the rules of the
chain for a new schema are the coordinator's (`odfabric.domain.chain.schema_evolution`), which has the last word.
"""

from __future__ import annotations

from odfabric.formats.slices.arrow_schema import with_explicit_defaults
from odfabric.model.data_schema import DataSchema, DataType, DataTypeOption
from odfabric.model.engine import EvolutionVerdict, QueryEvolution, ValidateResult

_NEW_DATASET = "declare a new dataset with this transform; this one keeps its columns"


def same_query() -> QueryEvolution:
    """Both transforms say the same."""
    return QueryEvolution(verdict=EvolutionVerdict.COMPATIBLE, reason="both queries say the same: rows and state stay")


def changed_query(before: DataSchema | None, after: ValidateResult) -> QueryEvolution:
    """The verdict on a query that says something else.

    `after` is accepted, `before` are the columns of before, if they are known.
    """
    if before is None or after.data_schema is None:
        return _migration("the query has changed")
    old, new = _types(before), _types(after.data_schema)
    for name, data_type in old.items():
        if name not in new:
            return _refused(f"the column `{name}` is gone")
        if not _fits(new[name], data_type):
            return _refused(f"the column `{name}` has another type")
    added = [name for name in new if name not in old]
    required = [name for name in added if not isinstance(new[name], DataTypeOption)]
    if required:
        return _refused(f"the new column `{required[0]}` is never null, which earlier rows cannot promise")
    if [*new] != [*old, *added]:
        listed = ", ".join(f"`{name}`" for name in old)
        return _refused(
            "its columns stand in another order", hint=f"select them as before, and new ones after them: {listed}, .."
        )
    if added:
        return _migration(f"the query has changed, and `{'`, `'.join(added)}` is new")
    return _migration("the query has changed")


def _migration(reason: str) -> QueryEvolution:
    text = f"{reason}: the next transaction computes the result anew and corrects the rows that differ"
    return QueryEvolution(verdict=EvolutionVerdict.MIGRATION, reason=text)


def _refused(reason: str, *, hint: str = _NEW_DATASET) -> QueryEvolution:
    return QueryEvolution(verdict=EvolutionVerdict.REFUSED, reason=reason, hint=hint)


def _types(schema: DataSchema) -> dict[str, DataType]:
    return {field.name: field.type for field in with_explicit_defaults(schema).fields}


def _fits(new: DataType, old: DataType) -> bool:
    """Equal, or never null where nulls were allowed."""
    return new == old or (isinstance(old, DataTypeOption) and new == old.inner)
