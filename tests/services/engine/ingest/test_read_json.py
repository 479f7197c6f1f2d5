"""Reading JSON lines and documents: strict, exact, refusals with line and field."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from odfabric.errors import IncompatibleSchema, InvalidData, LimitExceeded
from odfabric.formats.manifests.manifest_events import data_schema_from_value
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataTypeBinary,
    DataTypeInt32,
    DataTypeList,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeUInt64,
)
from odfabric.model.source import (
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
)
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.reading import ddl, read_rows, refusal, values

pytestmark = pytest.mark.spark


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_without_schema_types_are_inferred_and_keys_sorted(engine_call: EngineCall) -> None:
    content = lines({"population": 1000, "city": "A"}, {"city": "B", "share": 0.5, "old": True}, {"share": 1})
    rows = read_rows(engine_call, ReadStepNdJson(), content)
    assert rows is not None
    assert rows.schema.equals(
        pa.schema([("city", pa.string()), ("old", pa.bool_()), ("population", pa.int64()), ("share", pa.float64())])
    )
    assert values(engine_call, ReadStepNdJson(), content)[2] == {
        "city": None,
        "old": None,
        "population": None,
        "share": 1.0,
    }


def test_times_of_the_table(engine_call: EngineCall) -> None:
    dates = ReadStepNdJson(schema=ddl("date DATE"))
    assert values(engine_call, dates, lines({"date": "2022-09-25"})) == [{"date": date(2022, 9, 25)}]
    texts = ["2022-09-25 01:02:03", "2022-09-25T01:02:03", "2022-09-25T01:02:03Z", "2022-09-25T01:02:03-01:00"]
    stamps = values(engine_call, ReadStepNdJson(schema=ddl("t TIMESTAMP")), lines(*({"t": text} for text in texts)))
    assert [row["t"].hour for row in stamps] == [1, 1, 1, 2]


def test_with_schema_other_keys_are_ignored_and_missing_ones_null(engine_call: EngineCall) -> None:
    step = ReadStepNdJson(schema=ddl("a INT", "b STRING"))
    assert values(engine_call, step, lines({"a": 1, "x": [{}]}, {"b": "t", "a": None}, {})) == [
        {"a": 1, "b": None},
        {"a": None, "b": "t"},
        {"a": None, "b": None},
    ]
    required = ReadStepNdJson(schema=ddl("a INT NOT NULL"))
    error = refusal(engine_call, required, lines({"a": 1}, {}, {"a": None}))
    assert error.message == "Column `a` contains 2 null values while none were expected"
    assert (error.place.line, error.place.field) == (2, "a")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("BIGINT", "1.0", 1),
        ("INT", "1e3", 1000),
        ("TINYINT UNSIGNED", "255", 255),
        ("DOUBLE", "1", 1.0),
        ("DOUBLE", "-0.0", -0.0),
        ("DOUBLE", "0.1", 0.1),
        ("DECIMAL(20, 2)", "123456789012345678.12", Decimal("123456789012345678.12")),
        ("DECIMAL(20, 2)", "1e2", Decimal("100.00")),
        ("DECIMAL(20, 2)", '"12.5"', Decimal("12.50")),
        ("DECIMAL(38, 0)", "9" * 38, Decimal("9" * 38)),
        ("BOOLEAN", "true", True),
        ("STRING", '"\\ud83d\\ude00 \\u0000"', "\U0001f600 \0"),
        ("ARRAY<INT>", "[1, null, 3]", [1, None, 3]),
        ("ARRAY<TIMESTAMP>", '["2020-01-01"]', [datetime(2020, 1, 1, tzinfo=UTC)]),
    ],
)
def test_values_are_exact(engine_call: EngineCall, kind: str, text: str, value: object) -> None:
    found = values(engine_call, ReadStepNdJson(schema=ddl(f"v {kind}")), f'{{"v": {text}}}\n'.encode())
    assert repr(found[0]["v"]).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") == repr(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("BIGINT", "9223372036854775808"),
        ("BIGINT", "1.5"),
        ("BIGINT", '"1"'),
        ("BIGINT", "true"),
        ("BIGINT", "1e300"),
        ("TINYINT UNSIGNED", "256"),
        ("BIGINT UNSIGNED", "9223372036854775808"),
        ("DOUBLE", '"1"'),
        ("DOUBLE", "9007199254740993"),
        ("DOUBLE", "false"),
        ("FLOAT", "1e39"),
        ("DECIMAL(4, 2)", "1.239"),
        ("DECIMAL(4, 2)", "100"),
        ("DECIMAL(4, 2)", '"NaN"'),
        ("DECIMAL(4, 2)", '"1_0"'),
        ("STRING", "1"),
        ("STRING", "{}"),
        ("STRING", '"\\ud800"'),
        ("BOOLEAN", "1"),
        ("DATE", "1"),
        ("DATE", '"2022-02-30"'),
        ("TIMESTAMP", "1577926923"),
        ("TIMESTAMP", '"9/25/2022 1:02:03"'),
        ("ARRAY<INT>", "1"),
    ],
)
def test_a_value_of_another_type_is_refused_with_line_and_field(engine_call: EngineCall, kind: str, text: str) -> None:
    step = ReadStepNdJson(schema=ddl(f"v {kind}"))
    error = refusal(engine_call, step, f'{{"v": null}}\n\n{{"v": {text}}}\n'.encode())
    assert isinstance(error, InvalidData)
    assert (error.place.file, error.place.line, error.place.field) == ("f0", 3, "v")


def test_nested_values_name_the_whole_path(engine_call: EngineCall) -> None:
    item = DataTypeOption(inner=DataTypeInt32())
    member = DataField(name="n", type=DataTypeList(item_type=item))
    schema = DataSchema(fields=(DataField(name="s", type=DataTypeStruct(fields=(member,))),))
    step = ReadStepNdJson(schema=schema)
    assert values(engine_call, step, lines({"s": {"n": [1, None], "x": 0}})) == [{"s": {"n": [1, None]}}]
    assert refusal(engine_call, step, lines({"s": {"n": [1, "2"]}})).place.field == "s.n[1]"
    missing = refusal(engine_call, step, lines({"s": {}}))
    assert (missing.place.field, missing.message) == ("s.n", "null where a value is required")


def test_bytes_are_hexadecimal(engine_call: EngineCall) -> None:
    schema = DataSchema(fields=(DataField(name="b", type=DataTypeBinary()),))
    assert values(engine_call, ReadStepNdJson(schema=schema), lines({"b": "00fF"})) == [{"b": b"\0\xff"}]
    assert refusal(engine_call, ReadStepNdJson(schema=schema), lines({"b": "0 1"})).place.field == "b"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"a": 1, "a": 2}', "the key 'a' appears twice"),
        (b'{"x": [{"a": 1, "b": 2, "a": 1}]}', "the key 'a' appears twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": 1', "delimiter"),
        (b"{'a': 1}", "double quotes"),
        (b'{"a": 01}', "delimiter"),
        (b'{"a": 1} x', "Extra data"),
        (b'{"a": "\x01"}', "control character"),
        (b"[" * 101 + b"]" * 101, "nested deeper than 100"),
        (b"[" * 100_000, "nested deeper than 100"),
        (b"[1]", "must be an object"),
        (b"1" * 5000, "Not a JSON value"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_line(engine_call: EngineCall, text: bytes, words: str) -> None:
    error = refusal(engine_call, ReadStepNdJson(), b'{"a": 1}\r\n' + text + b"\n")
    assert isinstance(error, InvalidData)
    assert (error.place.file, error.place.line) == ("f0", 2)
    assert words in error.message


def test_brackets_in_texts_are_not_nesting(engine_call: EngineCall) -> None:
    deep = '"' + "[" * 200 + '\\"{{"'
    assert len(values(engine_call, ReadStepNdJson(), f'{{"a": {deep}}}\n'.encode())) == 1
    assert values(engine_call, ReadStepNdJson(schema=ddl("b INT")), b'{"a": ' + b"[" * 99 + b"]" * 99 + b"}") == [
        {"b": None}
    ]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"a": 1}, {"a": "x"}], "a text and an integer"),
        ([{"a": None}], "no value that would tell its type"),
        ([{"a": []}], "no value that would tell its type"),
        ([{"a": 2**63}], "beyond 64 bits"),
    ],
)
def test_columns_without_one_type_need_a_schema(engine_call: EngineCall, rows: list[object], words: str) -> None:
    error = refusal(engine_call, ReadStepNdJson(), lines(*rows))
    assert error.place.field is not None
    assert error.place.field.startswith("a")
    assert words in error.message or "an integer and a text" in error.message
    assert error.hint == "declare a schema in the read step"


def test_rows_after_the_sample_must_fit(engine_call: EngineCall) -> None:
    error = refusal(engine_call, ReadStepNdJson(), lines(*({"a": 1} for _ in range(1200))) + lines({"a": 1.5}))
    assert (error.place.line, error.place.field) == (1201, "a")
    assert "declare a schema" in str(error)


def test_the_first_wrong_row_is_named_whatever_is_wrong_with_it(engine_call: EngineCall) -> None:
    step = ReadStepNdJson(schema=ddl("a INT", "b INT"))
    error = refusal(engine_call, step, b'{"a": 1}\n{"a": 1, "b": "x"}\n{"a": "y"}\nno JSON\n')
    assert (error.place.line, error.place.field) == (2, "b")
    document = b'[{"a": 1},\n {"a": "y"},\n 5]'
    error = refusal(engine_call, ReadStepJson(schema=ddl("a INT")), document)
    assert (error.place.line, error.place.field) == (2, "a")
    assert refusal(engine_call, step, b'{"a": 1}\nno JSON\n{"a": "y"}\n').place.line == 2


def test_documents(engine_call: EngineCall) -> None:
    assert values(engine_call, ReadStepJson(), b'[{"a": 1},\n {"a": 2}]\n') == [{"a": 1}, {"a": 2}]
    document = b'{"x": {"y": [1, {}], "items": [\n{"a": 1}, {"a": 2}]}, "z": null}'
    assert values(engine_call, ReadStepJson(sub_path="x.items"), document) == [{"a": 1}, {"a": 2}]
    assert values(engine_call, ReadStepJson(schema=ddl("a INT")), b"[]") == []
    assert read_rows(engine_call, ReadStepJson(), b" [ ] ") is None


@pytest.mark.parametrize(
    ("sub_path", "text", "words", "line"),
    [
        ("a.b", b'{"a": {"c": []}}', "Sub-path not found: a.b", None),
        ("a.b", b'{"a": [1]}', "Sub-path not found: a.b", None),
        ("a", b'{"a": {}}', "Sub-path does not specify an array: a", None),
        (None, b'{"a": []}', "is not an array", None),
        (None, b'[{"a": 1},\n\n 5]', "must be an object", 3),
        (None, b'[{"a": 1}\n {"a": 2}]', "a comma", 2),
        (None, b'[{"a": 1}]\n[]', "more after the end", 2),
        ("a", b'{"a": [{"b": 1}],\n "a": []}', "appears twice", 2),
        ("a", b'{"a": [{"b": 1}],\n "c": {"d": 1, "d": 2}}', "appears twice", 2),
        ("a", b'{"a": [{"b": 1}], "c": NaN}', "NaN", 1),
        (None, b'[{"a": 1}, {"b": 1, "b": 2}]', "appears twice", 1),
    ],
)
def test_documents_are_refused_with_their_place(
    engine_call: EngineCall, sub_path: str | None, text: bytes, words: str, line: int | None
) -> None:
    error = refusal(engine_call, ReadStepJson(sub_path=sub_path), text)
    assert isinstance(error, InvalidData)
    assert (error.place.file, error.place.line) == ("f0", line)
    assert words in error.message


def test_limits(engine_call: EngineCall) -> None:
    small = replace(
        engine_call, settings=replace(engine_call.settings, line_bytes_max=100, document_bytes_max=100, columns_max=3)
    )
    assert isinstance(refusal(small, ReadStepNdJson(), lines({"a": "x" * 100})), LimitExceeded)
    assert isinstance(refusal(small, ReadStepJson(), b"[" + lines({"a": "x" * 100}) + b"]"), LimitExceeded)
    assert "more than 3" in refusal(small, ReadStepNdJson(), lines({"a": 1, "b": 1, "c": 1, "d": 1})).message


POINT = {"type": "Point", "coordinates": [1.5, 2]}


def feature(**properties: object) -> dict[str, object]:
    return {"type": "Feature", "id": 1, "bbox": [1, 2], "properties": properties, "geometry": POINT}


def test_features_become_rows(engine_call: EngineCall) -> None:
    features = [feature(name="a", area=3), feature(name="b", area=None)]
    document = json.dumps({"type": "FeatureCollection", "features": features}).encode()
    text = '{"type":"Point","coordinates":[1.5,2]}'
    wanted = [{"area": 3, "geometry": text, "name": "a"}, {"area": None, "geometry": text, "name": "b"}]
    assert values(engine_call, ReadStepGeoJson(), document) == wanted
    assert values(engine_call, ReadStepNdGeoJson(), lines(*features)) == wanted
    declared = ddl("name STRING NOT NULL", "area DOUBLE", "geometry STRING NOT NULL")
    for step, content in (
        (ReadStepGeoJson(schema=declared), document),
        (ReadStepNdGeoJson(schema=declared), lines(*features)),
    ):
        assert [row["area"] for row in values(engine_call, step, content)] == [3.0, None]
    assert read_rows(engine_call, ReadStepGeoJson(), b"") is None
    assert values(engine_call, ReadStepNdGeoJson(schema=declared), b"") == []
    marked = data_schema_from_value({"fields": [{"name": "geometry", "type": "String", "extra": MARK}]})
    assert values(engine_call, ReadStepGeoJson(schema=marked), document) == [{"geometry": text}] * 2


def test_features_are_refused_with_their_line(engine_call: EngineCall) -> None:
    rows = lines(feature(name="a"), {**feature(name="b"), "geometry": "POINT (1 2)"})
    error = refusal(engine_call, ReadStepNdGeoJson(), rows)
    assert (error.place.file, error.place.line, error.place.field) == ("f0", 2, "geometry")
    document = b'{"type": "FeatureCollection", "features": [\n' + b",\n".join(rows.splitlines()) + b"]}"
    error = refusal(engine_call, ReadStepGeoJson(), document)
    assert (error.place.file, error.place.line, error.place.field) == ("f0", 3, "geometry")
    cut = refusal(engine_call, ReadStepGeoJson(), document[:-60])
    assert isinstance(cut, InvalidData)
    assert cut.place.line == 3
    small = replace(engine_call, settings=replace(engine_call.settings, document_bytes_max=100))
    assert isinstance(refusal(small, ReadStepGeoJson(), document), LimitExceeded)


MARK = {"odfabric.dev/type": {"kind": "Json"}}


def test_a_column_of_kind_json_keeps_what_was_written(engine_call: EngineCall) -> None:
    optional = {"kind": "Option", "inner": "String"}
    schema = data_schema_from_value({"fields": [{"name": "v", "type": optional, "extra": MARK}]})
    texts = ['{"b":[1.50,2],"a":{}}', "[ ]", "2138", "2138.0", "2.138E+3", '"2138"', "true", "null"]
    content = "".join(f'{{"v": {text}}}\n' for text in texts).encode()
    found = [row["v"] for row in values(engine_call, ReadStepNdJson(schema=schema), content)]
    assert found == ['{"b":[1.50,2],"a":{}}', "[]", "2138", "2138.0", "2.138E+3", '"2138"', "true", None]


def test_structs_whose_hash_would_be_unclear_are_refused(engine_call: EngineCall) -> None:
    inner = DataField(name="x", type=DataTypeOption(inner=DataTypeString()))
    struct = DataTypeOption(inner=DataTypeStruct(fields=(inner,)))
    step = ReadStepNdJson(schema=DataSchema(fields=(DataField(name="s", type=struct),)))
    error = refusal(engine_call, step, lines({"s": {"x": "y"}}))
    assert isinstance(error, IncompatibleSchema)
    assert error.place.field == "s.x"
    assert "declare the member or the struct as required" in (error.hint or "")


def test_batches_of_any_size_give_the_same_rows(engine_call: EngineCall) -> None:
    content = lines(*({"a": number, "t": "x" * (number % 90)} for number in range(300)))
    whole = values(engine_call, ReadStepNdJson(), content)
    for rows, size in ((7, 10**9), (10**6, 50)):
        settings_of_batches = replace(engine_call.settings, batch_rows=rows, batch_bytes=size)
        assert values(replace(engine_call, settings=settings_of_batches), ReadStepNdJson(), content) == whole


def test_unsigned_integers_beyond_are_refused_with_the_limit(engine_call: EngineCall) -> None:
    step = ReadStepNdJson(schema=DataSchema(fields=(DataField(name="u", type=DataTypeUInt64()),)))
    assert values(engine_call, step, lines({"u": 2**63 - 1})) == [{"u": 2**63 - 1}]
    assert "up to 2^63-1" in refusal(engine_call, step, lines({"u": 2**64 - 1})).message
