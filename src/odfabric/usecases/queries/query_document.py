"""The answer to a query as a JSON value. Source: docs/openapi.json."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from odfabric.errors import InvalidRequest, Place
from odfabric.formats.json_values.json_rows import parse_data_format, rows_document
from odfabric.formats.manifests.schema_rendering import parse_schema_format, render_schema
from odfabric.usecases.queries.query_data import QueryAnswer, QueryData

DEFAULT_SCHEMA_FORMAT = "ArrowJson"
_PARTS = {"input": "Input", "schema": "Schema", "proof": "Proof"}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryForm:
    """In which form the answer is wanted.

    `include` holds `Input` and `Schema`, in any case of letters.
    """

    data_format: str = "JsonAoS"
    include: tuple[str, ...] = ()
    schema_format: str | None = None
    dialect: str = "SqlSpark"

    def check(self) -> None:
        """Raises InvalidRequest, before anything is run."""
        parse_data_format(self.data_format)
        if self.schema_format is not None:
            parse_schema_format(self.schema_format)
        for part in self.include:
            if part.lower() not in _PARTS:
                raise InvalidRequest(
                    f"unknown part {part!r}", place=Place(field="include"), hint="include takes Input and Schema"
                )
        if "Proof" in self.parts():
            raise InvalidRequest("this node does not make proofs", place=Place(field="include"), hint="leave Proof out")

    def parts(self) -> frozenset[str]:
        """What to include; a schema format asks for the schema."""
        found = {_PARTS[part.lower()] for part in self.include if part.lower() in _PARTS}
        return frozenset(found | ({"Schema"} if self.schema_format else set()))


def query_document(request: QueryData, form: QueryForm, answer: QueryAnswer) -> dict[str, object]:
    """`{input?, output: {data, dataFormat, schema?, schemaFormat?}}` of an answer.

    Its session is open.
    """
    data_format = parse_data_format(form.data_format)
    with pa.memory_map(str(answer.path)) as source, pa.ipc.open_stream(source) as stream:
        output: dict[str, object] = {**rows_document(stream.read_all(), data_format)}
    if "Schema" in form.parts():
        schema_format = parse_schema_format(form.schema_format or DEFAULT_SCHEMA_FORMAT)
        output |= {"schema": render_schema(answer.data_schema, schema_format), "schemaFormat": schema_format.value}
    document: dict[str, object] = {"output": output}
    if "Input" in form.parts():
        document["input"] = _input(request, form, answer)
    return document


def _input(request: QueryData, form: QueryForm, answer: QueryAnswer) -> dict[str, object]:
    """The query as it was run: every dataset pinned to its block."""
    found: dict[str, object] = {
        "query": request.sql,
        "queryDialect": form.dialect,
        "dataFormat": form.data_format,
        "include": sorted(form.parts()),
        "datasets": [
            {"id": str(dataset.id), "alias": dataset.alias, "blockHash": str(dataset.block_hash)}
            for dataset in answer.inputs
        ],
        "skip": request.skip,
        "limit": request.limit,
    }
    if request.as_of is not None:
        found["asOf"] = str(request.as_of)
    if answer.calls:
        found["tableFunctions"] = [
            {"call": str(each.call), "id": str(each.dataset.id), "blockHash": str(each.dataset.block_hash)}
            for each in answer.calls
        ]
    if form.schema_format is not None:
        found["schemaFormat"] = form.schema_format
    return found
