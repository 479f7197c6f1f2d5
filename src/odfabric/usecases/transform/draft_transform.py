"""Draft a derivative dataset from one SQL query: its inputs and their names.

Invariant: an input is a dataset that its author may read and that the query names: in backticks, or after FROM or JOIN. What stands in
comments and string literals names nothing. Not here: what is wrong with the query (the engine), creating the dataset (`create_dataset`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from odfabric.errors import InvalidName, InvalidRequest, LimitExceeded, Place
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.identity import DatasetAlias
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import DatasetKind, SetTransform, SqlQueryStep, TransformInput, TransformSql
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.queries.validate_queries import ENGINE

INPUTS_MAX = 100
"""Datasets that one query may read."""

_TOKEN = re.compile(
    r"""
      --[^\n]*                                       # comments
    | /\*.*?(?:\*/|\Z)
    | (?:\b(?:from|join)\s+)"(?P<quoted>[^"\n]*)"    # names in double quotes, only where a table stands
    | '(?:[^'\\]|\\.)*(?:'|\Z)                       # texts
    | "(?:[^"\\]|\\.)*(?:"|\Z)
    | `(?P<ticked>(?:[^`]|``)*)`
    | (?:\b(?:from|join)\s+)(?P<plain>[A-Za-z0-9][A-Za-z0-9.-]*)
    """,
    re.ASCII | re.DOTALL | re.IGNORECASE | re.VERBOSE,
)


def draft_transform(name: DatasetAlias, sql: str, *, repository: Repository, text_bytes_max: int) -> DatasetSnapshot:
    """The snapshot of a derivative dataset that the query gives.

    `repository` is as its author sees it.

    Raises InvalidRequest for a query that names no dataset that its author may read, LimitExceeded.
    """
    if len(sql.encode()) > text_bytes_max:
        raise LimitExceeded("the query is too long", limit="query_text_bytes_max", maximum=text_bytes_max)
    inputs = named_inputs(sql, repository)
    if not inputs:
        raise InvalidRequest(
            "the query names no dataset that you may read",
            place=Place(field="sql"),
            hint="write names in backticks: SELECT .. FROM `account/name`",
        )
    transform = TransformSql(engine=ENGINE, queries=(SqlQueryStep(query=sql),))
    event = SetTransform(inputs=inputs, transform=transform)
    return DatasetSnapshot(name=name, kind=DatasetKind.DERIVATIVE, metadata=(event,))


def named_inputs(sql: str, repository: Repository) -> tuple[TransformInput, ...]:
    """Datasets that a query names, in order, with its names. At most `INPUTS_MAX`."""
    inputs: list[TransformInput] = []
    for text in dict.fromkeys(_names(sql)):
        try:
            found = repository.find(parse_dataset_alias(text))
        except InvalidName:
            continue  # the name of a column
        if found is not None and len(inputs) < INPUTS_MAX:
            inputs.append(TransformInput(dataset_ref=str(found.alias), alias=text))
    return tuple(inputs)


def _names(sql: str) -> Iterator[str]:
    for token in _TOKEN.finditer(sql):
        text = token["ticked"] or token["quoted"] or token["plain"]
        if text:
            yield text
