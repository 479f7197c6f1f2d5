"""Names that a query in time does not find because they came later.

Owns the hint of such a refusal. Invariant: only what the caller may read is named. Source: docs/reference/time.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.errors import InvalidQuery
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.queries.table_functions import ReadSlices

_UNKNOWN = re.compile(r"unknown (?:table|column) `?(?P<name>[^`\s]+)`?")


def explain_later_names(
    error: InvalidQuery, absent: Mapping[str, str], tables: Sequence[ReadSlices], repository: Repository
) -> None:
    """Set the hint of a refusal if what it does not find came later.

    `absent` are datasets that were not there yet, by alias, with what to write instead; `tables` are those that the query reads.
    """
    found = _UNKNOWN.match(error.message)
    if found is None:
        return
    name = found["name"]
    hint = absent.get(name.lower()) or _of_column(name, tables, repository)
    if hint is not None:
        error.hint = hint


def _of_column(name: str, tables: Sequence[ReadSlices], repository: Repository) -> str | None:
    for table in tables:
        _, present = repository.current(table.entry.id)
        schema, schema_then = current_schema(present), current_schema(table.state)
        if schema is None:
            return f"{table.entry.alias} has no data yet, and gets its columns with it"
        columns = {each.name.lower() for each in schema.fields} if schema else frozenset()
        columns_then = {each.name.lower() for each in schema_then.fields} if schema_then else frozenset()
        if name.lower() in columns - columns_then:
            number = table.block.sequence_number
            return f"it came to {table.entry.alias} after block {number}, of which the query reads rows and columns"
    return None
