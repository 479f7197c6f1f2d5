"""Columns that keep JSON values whole, as their text.

Owns the attribute by which a schema marks such a column: `extra: {odfabric.dev/type: {kind: Json}}` on a String. Only readers of JSON look
at it; what is stored is a text like any other, and the specification's own `opendatafabric.org/type` has no such kind. Not here: the text
of a value (`odfabric_engine_spark.ingest.json.json_values`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from odfabric.errors import InvalidManifest, Place
from odfabric.formats.json_values.canonical_json import parse_json_object
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
)

ATTRIBUTE: Final = "odfabric.dev/type"
JSON: Final = "Json"
HOW_TO_MARK: Final = f"`extra: {{{ATTRIBUTE}: {{kind: {JSON}}}}}`"

JsonMembers: TypeAlias = "Mapping[str, JsonMembers | None]"
"""Members with marks within them; None: the member itself is marked."""


def json_members(schema: DataSchema) -> JsonMembers:
    """The marked columns of a schema, and members of its columns.

    Raises InvalidManifest for a mark that means nothing.
    """
    return _marked(schema.fields, "")


def _marked(fields: tuple[DataField, ...], prefix: str) -> JsonMembers:
    found: dict[str, JsonMembers | None] = {}
    for field in fields:
        path = f"{prefix}{field.name}"
        if _is_marked(field, path):
            found[field.name] = None
        elif within := _within(field.type, path):
            found[field.name] = within
    return found


def _within(data_type: DataType, path: str) -> JsonMembers:
    match data_type:
        case DataTypeOption(inner=inner):
            return _within(inner, path)
        case DataTypeList(item_type=inner) | DataTypeMap(value_type=inner):
            return _within(inner, path)
        case DataTypeStruct(fields=fields):
            return _marked(fields, f"{path}.")
        case _:
            return {}


def _is_marked(field: DataField, path: str) -> bool:
    if field.extra is None:
        return False
    try:
        mark = parse_json_object(field.extra.entries).get(ATTRIBUTE)
    except ValueError as error:
        raise InvalidManifest(f"Column `{path}`: {error}", place=Place(field=path)) from None
    if mark is None:
        return False
    if mark != {"kind": JSON}:
        raise InvalidManifest(
            f"Column `{path}`: {ATTRIBUTE} is of an unknown kind",
            place=Place(field=path),
            hint=f"the one kind is {JSON}: {HOW_TO_MARK}",
        )
    inner = field.type.inner if isinstance(field.type, DataTypeOption) else field.type
    if not isinstance(inner, DataTypeString):
        raise InvalidManifest(
            f"Column `{path}` is of kind {JSON} and no String",
            place=Place(field=path),
            hint="the text of a JSON value is a String: `type: String`, or `{kind: Option, inner: String}`",
        )
    return True
