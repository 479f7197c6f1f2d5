"""Schemas in the five forms of the node API."""

from __future__ import annotations

import io
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidRequest
from odfabric.formats.manifests.manifest_events import data_schema_from_value
from odfabric.formats.manifests.schema_rendering import SchemaFormat, parse_schema_format, render_schema
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema, data_schema_to_arrow
from tests.support.chains.arrow_strategies import column_types

ARROW = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.uint8()),
        pa.field("system_time", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("half", pa.float16()),
        pa.field("fixed", pa.binary(3)),
        pa.field("days", pa.date32()),
        pa.field("clock", pa.time64("us")),
        pa.field("wait", pa.duration("s")),
        pa.field("nothing", pa.null()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("pair", pa.list_(pa.field("item", pa.float64(), nullable=False), 2)),
        pa.field("who", pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("ok", pa.bool_())])),
        pa.field("counts", pa.map_(pa.string(), pa.int32())),
    ]
)
SCHEMA = arrow_to_data_schema(ARROW)


def test_arrow_json_is_that_of_the_integration_tests() -> None:
    value: Any = render_schema(SCHEMA, SchemaFormat.ARROW_JSON)
    by_name = {field["name"]: field for field in value["fields"]}
    assert list(by_name) == ARROW.names
    assert by_name["offset"] == {
        "name": "offset",
        "nullable": False,
        "type": {"name": "int", "bitWidth": 64, "isSigned": True},
        "children": [],
    }
    types = {name: field["type"] for name, field in by_name.items()}
    assert types["system_time"] == {"name": "timestamp", "unit": "MILLISECOND", "timezone": "UTC"}
    assert types["price"] == {"name": "decimal", "precision": 10, "scale": 2, "bitWidth": 128}
    assert types["half"] == {"name": "floatingpoint", "precision": "HALF"}
    assert types["fixed"] == {"name": "fixedsizebinary", "byteWidth": 3}
    assert types["days"] == {"name": "date", "unit": "DAY"}
    assert types["clock"] == {"name": "time", "unit": "MICROSECOND", "bitWidth": 64}
    assert types["wait"] == {"name": "duration", "unit": "SECOND"}
    assert types["nothing"] == {"name": "null"}
    assert types["pair"] == {"name": "fixedsizelist", "listSize": 2}
    assert types["counts"] == {"name": "map", "keysSorted": False}
    assert [child["type"]["name"] for child in by_name["who"]["children"]] == ["utf8", "bool"]
    (item,) = by_name["tags"]["children"]
    assert (item["name"], item["type"], item["nullable"]) == ("item", {"name": "utf8"}, True)
    (entries,) = by_name["counts"]["children"]
    assert (entries["name"], entries["nullable"], entries["type"]) == ("entries", False, {"name": "struct"})
    assert [child["name"] for child in entries["children"]] == ["keys", "values"]


def test_odf_forms_are_the_manifest() -> None:
    value = render_schema(SCHEMA, SchemaFormat.ODF_JSON)
    assert data_schema_from_value(value) == SCHEMA
    text = render_schema(SCHEMA, SchemaFormat.ODF_YAML)
    assert isinstance(text, str)
    assert text.startswith("fields:\n- name: offset\n  type:\n    kind: Int64\n")


def test_parquet_text() -> None:
    schema = arrow_to_data_schema(pa.schema([ARROW.field("offset"), ARROW.field("price"), ARROW.field("tags")]))
    assert render_schema(schema, SchemaFormat.PARQUET) == (
        "message arrow_schema {\n"
        "  REQUIRED INT64 offset;\n"
        "  OPTIONAL FIXED_LEN_BYTE_ARRAY (5) price (DECIMAL(10,2));\n"
        "  OPTIONAL group tags (LIST) {\n"
        "    REPEATED group list {\n"
        "      OPTIONAL BYTE_ARRAY element (STRING);\n"
        "    }\n"
        "  }\n"
        "}\n"
    )


def test_parquet_json_is_the_same_tree() -> None:
    value: Any = render_schema(SCHEMA, SchemaFormat.PARQUET_JSON)
    assert (value["name"], value["type"]) == ("arrow_schema", "MESSAGE")
    by_name = {field["name"]: field for field in value["fields"]}
    assert by_name["offset"] == {"name": "offset", "repetition": "REQUIRED", "type": "INT64"}
    assert by_name["price"]["length"] == 5
    assert by_name["op"]["logicalType"] == "INTEGER(8,false)"
    assert by_name["tags"]["type"] == "GROUP"
    assert by_name["tags"]["fields"][0]["fields"][0]["name"] == "element"

    def shapes(fields: list[Any], depth: int) -> list[str]:
        return [
            line
            for field in fields
            for line in (
                f"{'  ' * depth}{field['repetition']} {field['name']}",
                *shapes(field.get("fields", []), depth + 1),
            )
        ]

    text = str(render_schema(SCHEMA, SchemaFormat.PARQUET))
    kinds = r"(?:group|[A-Z0-9_]+(?: \(\d+\))?)"
    lines = [re.sub(rf"^(\s*)(\w+) {kinds} (\S+?);?( .*)?$", r"\1\2 \3", line) for line in text.splitlines()[1:-1]]
    assert shapes(value["fields"], 1) == [line for line in lines if line.strip() != "}"]


_LOGICAL = {"String": "STRING", "Date": "DATE", "Float16": "FLOAT16", "List": "LIST", "Map": "MAP", "Null": "UNKNOWN"}
_UNITS = {"milliseconds": "MILLIS", "microseconds": "MICROS", "nanoseconds": "NANOS"}


@given(st.lists(column_types(), min_size=1, max_size=4))
def test_the_parquet_form_is_what_the_writer_makes(arrow_types: list[pa.DataType]) -> None:
    schema = arrow_to_data_schema(pa.schema([pa.field(f"c{index}", each) for index, each in enumerate(arrow_types)]))
    _assert_as_written(schema)


def test_the_parquet_form_of_every_kind_is_what_the_writer_makes() -> None:
    _assert_as_written(SCHEMA)


def _assert_as_written(schema: Any) -> None:
    if any(bad in str(schema) for bad in ("scale=-", "fixed_length=0")):
        return  # pyarrow's writer refuses these
    file = io.BytesIO()
    pq.write_table(data_schema_to_arrow(schema, encodings=False).empty_table(), file)
    described = str(pq.ParquetFile(file).schema).splitlines()[2:-1]
    ours = str(render_schema(schema, SchemaFormat.PARQUET)).splitlines()[1:-1]
    assert ours == [_in_our_words(line) for line in described]


def _in_our_words(line: str) -> str:
    """A line of pyarrow's description of a Parquet schema."""
    line = line.replace(" field_id=-1", "")
    if line.strip() == "}":
        return line
    match = re.fullmatch(r"(\s*)(\w+) (\w+)(?:\((\d+)\))? (\w+)(?: \((.*)\))?( \{|;)", line)
    assert match, line
    indent, repetition, kind, length, name, logical, end = match.groups()
    kind = {"group": "group", "binary": "BYTE_ARRAY"}.get(kind, kind.upper())
    size = f" ({length})" if length else ""
    return f"{indent}{repetition.upper()} {kind}{size} {name}{_logical(logical)}{end}"


def _logical(text: str | None) -> str:
    if text is None:
        return ""
    if text in _LOGICAL:
        return f" ({_LOGICAL[text]})"
    name, members = re.fullmatch(r"(\w+)\((.*)\)", text).groups()  # type: ignore[union-attr]
    value = dict(part.split("=") for part in members.split(", "))
    match name:
        case "Int":
            return f" (INTEGER({value['bitWidth']},{value['isSigned']}))"
        case "Decimal":
            return f" (DECIMAL({value['precision']},{value['scale']}))"
        case _:
            return f" ({name.upper()}({_UNITS[value['timeUnit']]},{value['isAdjustedToUTC']}))"


@pytest.mark.parametrize("schema_format", list(SchemaFormat))
def test_spellings(schema_format: SchemaFormat) -> None:
    kebab = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", schema_format.value).lower()
    for text in (schema_format.value, schema_format.value.lower(), kebab):
        assert parse_schema_format(text) is schema_format


def test_other_texts_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="Unknown schema format 'Avro'") as caught:
        parse_schema_format("Avro")
    assert caught.value.place.field == "schemaFormat"
