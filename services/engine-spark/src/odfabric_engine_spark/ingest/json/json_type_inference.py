"""Types of columns from JSON rows without a schema.

Owns how values of different kinds in one column go together: integers and other numbers are Float64, everything else must be of
one kind. Invariant: an inferred type holds every value of the sample unchanged; what has no type (only nulls, empty lists)
or several is refused with the advice to declare a schema. Columns and members are nullable and sorted by name. Source:
specification, "Data Ingestion".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

import pyarrow as pa

from odfabric.errors import InvalidData, Place
from odfabric_engine_spark.ingest.json.json_values import JsonValue
from odfabric_engine_spark.ingest.values.type_inference import INT64

_ADVICE = "declare a schema in the read step"


def infer_json_schema(rows: Sequence[dict[str, JsonValue]], *, file: str) -> pa.Schema:
    """The schema of a sample.

    Raises InvalidData naming a column without a single type.
    """
    return pa.schema(_fields(rows, "", file))


def _fields(objects: Sequence[dict[str, JsonValue]], prefix: str, file: str) -> list[pa.Field]:
    names = sorted({name for item in objects for name in item})
    return [
        pa.field(name, _type([item.get(name) for item in objects], f"{prefix}{name}", file), nullable=True)
        for name in names
    ]


def _type(values: Iterable[JsonValue], path: str, file: str) -> pa.DataType:
    present = [value for value in values if value is not None]
    kinds = {_kind(value) for value in present}
    if kinds == {"an integer", "a number"}:
        kinds = {"a number"}
    if len(kinds) != 1:
        reason = f"holds {' and '.join(sorted(kinds))}" if kinds else "holds no value that would tell its type"
        raise InvalidData(f"Column `{path}` {reason}", place=Place(file=file, field=path), hint=_ADVICE)
    match kinds.pop():
        case "a truth value":
            return pa.bool_()
        case "an integer":
            return _integer(present, path, file)
        case "a number":
            return pa.float64()
        case "a text":
            return pa.string()
        case "a list":
            items = [item for value in present if isinstance(value, list) for item in value]
            return pa.list_(pa.field("item", _type(items, f"{path}[]", file), nullable=True))
        case _:
            return pa.struct(_fields([value for value in present if isinstance(value, dict)], f"{path}.", file))


def _integer(values: Iterable[JsonValue], path: str, file: str) -> pa.DataType:
    if all(value in INT64 for value in values):
        return pa.int64()
    raise InvalidData(
        f"Column `{path}` holds integers beyond 64 bits", place=Place(file=file, field=path), hint=_ADVICE
    )


def _kind(value: JsonValue) -> str:
    match value:
        case bool():
            return "a truth value"
        case int():
            return "an integer"
        case float() | Decimal():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
