"""Inputs whose columns have changed since the last transaction.

Owns the question whether the query makes the same of them. Invariant: a transaction continues only where the query means over the inputs
of now what it meant over those of before, so that nothing is withdrawn that was never there: `*` in a function or in a comparison of whole
rows, a column that takes the place of a name in SELECT, or a NATURAL join may mean something else though no column of the result is other.
Not here: columns of the result (`output_schema`), changes of the query (`execute.evolution`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odfabric.errors import InvalidData, InvalidManifest, OdfError, Place
from odfabric.formats.json_values.canonical_json import canonical_json, parse_json_object
from odfabric.formats.manifests.manifest_events import data_schema_from_value, noun_to_value
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import TransformRequest, TransformRequestInput
from odfabric_engine_spark.compile.compile_query import JudgedTransform, input_tables, judged_transform
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.sql.refusal import Refused, shown
from odfabric_engine_spark.state.checkpoint import InputPosition

_ANEW = "`odf set-transform --anew` computes the dataset from the beginning"


def columns_text(schema: DataSchema) -> str:
    """The columns of an input as a checkpoint has them."""
    return canonical_json(noun_to_value(schema))


def check_columns(
    request: TransformRequest, before: Sequence[InputPosition], judged: JudgedTransform, call: EngineCall
) -> None:
    """Raises InvalidData if new columns change the query's meaning.

    It names the new columns; the old ones are those of `before`.
    """
    if [each.dataset_id for each in before] != [str(one.dataset_id) for one in request.inputs]:
        return  # these are other inputs altogether
    old = [None if each.columns is None else _schema(each.columns) for each in before]
    changed = [
        (one, schema)
        for one, schema in zip(request.inputs, old, strict=True)
        if schema is not None and columns_text(schema) != columns_text(one.data_schema)
    ]
    if changed and _meaning(request, old, call) != judged.meaning:
        told = [f"`{shown(one.query_alias)}` has {_difference(schema, one.data_schema)}" for one, schema in changed]
        raise discontinued(
            f"the query makes something else of its inputs than before: {', and '.join(told)}",
            hint=f"name the columns that it reads in place of *, NATURAL and the like; {_ANEW}",
        )


def in_known_order(request: TransformRequest, before: Sequence[InputPosition]) -> TransformRequest:
    """The request with input columns in the order of `before`, new ones last.

    States keep columns by their places.
    """
    known = {each.dataset_id: each.columns for each in before}

    def in_order(one: TransformRequestInput) -> TransformRequestInput:
        columns = known.get(str(one.dataset_id))
        if columns is None or columns == columns_text(one.data_schema):
            return one
        places = {field.name: place for place, field in enumerate(_schema(columns).fields)}
        fields = sorted(one.data_schema.fields, key=lambda field: places.get(field.name, len(places)))
        return replace(one, data_schema=replace(one.data_schema, fields=tuple(fields)))

    return replace(request, inputs=tuple(in_order(one) for one in request.inputs))


def discontinued(message: str, *, hint: str = _ANEW) -> InvalidData:
    """A transaction does not continue what the last one has left."""
    return InvalidData(message, place=Place(rule="checkpoint-discontinued"), hint=hint)


def _meaning(request: TransformRequest, schemas: Sequence[DataSchema | None], call: EngineCall) -> str | None:
    """The query's meaning over inputs with other columns, None if it has none."""
    known = [
        (one.query_alias, one.vocabulary, one.data_schema if schema is None else schema)
        for one, schema in zip(request.inputs, schemas, strict=True)
    ]
    try:
        return judged_transform(call, request.transform, input_tables(known), request.vocabulary).meaning
    except (Refused, OdfError):
        return None


def _schema(text: str) -> DataSchema:
    try:
        return data_schema_from_value(parse_json_object(text))
    except (ValueError, InvalidManifest) as error:
        message = f"the checkpoint does not say which columns its inputs had: {error}"
        raise InvalidData(
            message, place=Place(rule="checkpoint-damaged"), hint="fetch it again, or replay the dataset"
        ) from error


def _difference(old: DataSchema, new: DataSchema) -> str:
    """New columns by name, or that they are other ones."""
    known = {field.name for field in old.fields}
    added = [f"`{shown(field.name)}`" for field in new.fields if field.name not in known]
    return f"got {', '.join(added)}" if added else "other columns"
