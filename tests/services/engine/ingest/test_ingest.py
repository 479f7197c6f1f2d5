"""Ingest as a whole: defaults, preprocessing, checks, history, order, writers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import (
    Corrupt,
    Determinate,
    IncompatibleSchema,
    InvalidData,
    InvalidQuery,
    OdfError,
)
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.logical_hash import logical_hash_of_parquet
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric.model.data_schema import DataField, DataTypeOption, DataTypeString
from odfabric.model.instant import Instant
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.source import (
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepCsv,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.ingesting import SOURCE_TIME, SYSTEM_TIME, Dataset
from tests.services.engine.ingest.reading import ddl

pytestmark = pytest.mark.spark

CSV = ReadStepCsv(header=True, schema=ddl("city STRING NOT NULL", "population BIGINT"))


def sql(*queries: str, engine: str = "spark") -> TransformSql:
    steps = [SqlQueryStep(alias=f"s{number}", query=query) for number, query in enumerate(queries[:-1])]
    return TransformSql(engine=engine, queries=(*steps, SqlQueryStep(query=queries[-1])))


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def schema_of(dataset: Dataset) -> pa.Schema:
    return pq.read_schema(dataset.call.exchange.root / dataset.history[-1].path).remove_metadata()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# Formats that a push may have.


def test_event_times_are_texts_or_seconds_by_default(engine_call: EngineCall) -> None:
    texts = Dataset(engine_call).ingest(
        ReadStepNdJson(), lines({"event_time": "2020-01-02T01:02:03.123456789Z", "foo": "bar"})
    )
    assert texts[0]["event_time"] == at("2020-01-02T01:02:03.123")
    seconds = Dataset(engine_call, rounds=5).ingest(ReadStepNdJson(), lines({"event_time": 1577926923, "foo": "bar"}))
    assert seconds[0]["event_time"] == at("2020-01-02T01:02:03")
    json, csv = ReadStepNdJson(), ReadStepCsv(header=True)
    for number, (step, content, word) in enumerate(
        (
            (json, lines({"x": 1}, {"event_time": "yesterday", "x": 1}), "no data"),
            (json, lines({"x": 1}, {"event_time": 1577926923000, "x": 1}), "timestamp_millis(event_time)"),
            (csv, b"event_time,x\n1577926923,1\n", "inferSchema: true"),
            (csv, b"event_time,x\n2020-01-02 01:02,1\n", "%Y-%m-%d %H:%M"),
        )
    ):
        dataset = Dataset(engine_call, rounds=10 + number)
        with pytest.raises(InvalidData, match="of the event time column `event_time`") as caught:
            dataset.ingest(step, content)
        assert (caught.value.place.file, caught.value.place.line) == ("file0", 2)
        assert caught.value.place.field == "event_time"
        assert word in str(caught.value.hint)


def test_names_of_system_columns_get_an_underscore_by_default(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call)
    rows = dataset.ingest(ReadStepNdJson(), lines({"op": 123, "foo": "bar", "offset": 7}))
    assert list(rows[0]) == ["offset", "op", "system_time", "event_time", "foo", "_offset", "_op"]
    assert (rows[0]["_op"], rows[0]["_offset"], rows[0]["op"], rows[0]["offset"]) == (123, 7, 0, 0)
    with pytest.raises(InvalidData) as caught:
        Dataset(engine_call, rounds=5).ingest(ReadStepNdJson(), lines({"op": 1, "_op": 2}))
    assert caught.value.place.field == "op"


def test_a_schema_that_was_there_first(engine_call: EngineCall) -> None:
    columns = pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("op", pa.int32(), nullable=False),
            pa.field("system_time", TIMESTAMP_TYPE, nullable=False),
            pa.field("event_time", TIMESTAMP_TYPE, nullable=False),
            pa.field("city", pa.string(), nullable=False),
            pa.field("population", pa.int64(), nullable=False),
        ]
    )
    dataset = Dataset(engine_call, data_schema=arrow_to_data_schema(columns))
    assert dataset.ingest(ReadStepNdJson(), lines({"city": "A", "population": 1}))[0]["population"] == 1
    assert schema_of(dataset).equals(columns)
    with pytest.raises(InvalidData, match="Column `population` contains 1 null values while none were expected"):
        dataset.ingest(ReadStepNdJson(), lines({"city": "A", "population": 1}, {"city": "B", "population": None}))


def test_decimals_of_a_dataset_are_exact_without_a_declared_schema(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call)
    dataset.ingest(ReadStepNdJson(schema=ddl("price DECIMAL(20, 2)")), lines({"price": "1"}))
    rows = dataset.ingest(ReadStepNdJson(), b'{"price": 123456789012345678.90}\n')
    assert [str(row["price"]) for row in rows] == ["123456789012345678.90"]


# What slices look like.


def test_columns_types_and_times(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call)
    step = ReadStepCsv(
        schema=ddl("n TINYINT UNSIGNED", "event_time TIMESTAMP", "d DECIMAL(9, 3)", "t TIMESTAMP NOT NULL")
    )
    rows = dataset.ingest(step, b"255,,1.5,2020-01-01T00:00:00.9999Z\n1,2021-01-01,,2020-01-01\n")
    assert schema_of(dataset).equals(
        pa.schema(
            [
                pa.field("offset", pa.int64(), nullable=False),
                pa.field("op", pa.int32(), nullable=False),
                pa.field("system_time", TIMESTAMP_TYPE, nullable=False),
                pa.field("event_time", TIMESTAMP_TYPE, nullable=False),
                pa.field("n", pa.uint8()),
                pa.field("d", pa.decimal128(9, 3)),
                pa.field("t", TIMESTAMP_TYPE, nullable=False),
            ]
        )
    )
    # The row without an event time gets that of the source, which is later, so it comes last.
    assert [row["n"] for row in rows] == [1, 255]
    assert rows[1]["event_time"] == SOURCE_TIME.to_datetime()
    assert rows[1]["t"] == at("2020-01-01T00:00:00.999")
    assert {row["system_time"] for row in rows} == {SYSTEM_TIME.to_datetime()}
    assert dataset.watermark == SOURCE_TIME


def test_names_of_the_vocabulary_and_a_date_as_event_time(engine_call: EngineCall) -> None:
    vocabulary = DatasetVocabulary("o", "k", "s", "date")
    dataset = Dataset(engine_call, vocabulary=vocabulary)
    rows = dataset.ingest(ReadStepCsv(schema=ddl("x INT", "date DATE", "op STRING")), b"1,2020-02-02,a\n2,,b\n")
    assert list(rows[0]) == ["o", "k", "s", "date", "x", "op"]
    assert [row["date"] for row in rows] == [date(2020, 2, 2), date(2049, 12, 31)]
    assert dataset.watermark == Instant.parse("2049-12-31T00:00:00Z")


def test_equal_event_times_keep_the_order_of_the_input(engine_call: EngineCall) -> None:
    content = b"event_time,n\n" + b"".join(b"2020-01-0%d,%d\n" % (9 - number % 3, number) for number in range(3000))
    step = ReadStepCsv(header=True, schema=ddl("event_time DATE", "n INT"))
    expected = sorted(range(3000), key=lambda number: 9 - number % 3)
    assert [row["n"] for row in Dataset(engine_call).ingest(step, content)] == expected
    kept = Dataset(engine_call, rounds=5).ingest(
        step, content, preprocess=sql("SELECT n, event_time FROM input WHERE n >= 0")
    )
    assert [row["n"] for row in kept] == expected


def test_a_large_result_is_the_same_file(engine_call: EngineCall) -> None:
    content = b"event_time,n,t\n" + b"".join(
        b"2020-01-01T00:00:%02dZ,%d,text %d\n" % (number * 7 % 60, number, number) for number in range(20_000)
    )
    step = ReadStepCsv(header=True, infer_schema=True)
    # Compiled instead of interpreted, through files instead of memory, in other batches.
    large = replace(engine_call.settings, collected_bytes_max=1000, compiled_bytes_min=0, batch_rows=777)
    small = replace(engine_call, session=engine_call.session.newSession(), settings=large)
    for number, merge in enumerate((MergeStrategyAppend(), MergeStrategySnapshot(primary_key=("t",)))):
        one = Dataset(engine_call, merge=merge, rounds=10 * number)
        other = Dataset(small, merge=merge, rounds=10 * number + 5)
        one.ingest(step, content)
        other.ingest(step, content)
        files = [engine_call.exchange.root / dataset.history[0].path for dataset in (one, other)]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_a_result_larger_than_expected_takes_the_other_way(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call)
    exploded = sql("SELECT n, i, repeat('x', 1000) AS pad FROM input LATERAL VIEW explode(sequence(1, 300000)) e AS i")
    rows = dataset.commit(dataset.request(ReadStepCsv(schema=ddl("n INT")), b"1\n", preprocess=exploded))
    assert rows.num_rows == 300_000
    assert rows.column("i").to_pylist() == list(range(1, 300_001))


# Checks.


@pytest.mark.parametrize(
    ("schema", "content", "field"),
    [
        (("offset BIGINT", "x INT"), b"1,2\n", "offset"),
        (("op INT", "x INT"), b"1,2\n", "op"),
        (("system_time TIMESTAMP", "x INT"), b",2\n", "system_time"),
        (("event_time STRING", "x INT"), b"2020-01-01,2\n", "event_time"),
    ],
)
def test_bad_input_schemas(engine_call: EngineCall, schema: tuple[str, ...], content: bytes, field: str) -> None:
    with pytest.raises(InvalidData) as caught:
        Dataset(engine_call).ingest(ReadStepCsv(schema=ddl(*schema)), content)
    assert (caught.value.place.field, caught.value.place.rule) == (field, "BadInputSchema")


def test_slices_must_fit_their_dataset(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call)
    dataset.ingest(CSV, b"city,population\nA,1\n")
    for number, step in enumerate(
        (
            ReadStepCsv(schema=ddl("city STRING NOT NULL", "population INT")),
            ReadStepCsv(schema=ddl("population BIGINT", "city STRING NOT NULL")),
            ReadStepCsv(schema=ddl("city STRING NOT NULL")),
        )
    ):
        content = (b"A,1\n", b"1,A\n", b"A\n")[number]
        with pytest.raises(IncompatibleSchema, match="not compatible with the schema defined by SetDataSchema event"):
            dataset.ingest(step, content)


CHANGES = ReadStepCsv(header=True, schema=ddl("op INT", "city STRING", "population BIGINT"))


@pytest.mark.parametrize(
    ("rows", "message", "line"),
    [
        ("0,A,1\n7,B,1\n", "kind of change is none", 3),
        ("0,A,1\n,B,1\n", "kind of change is none", 3),
        ("0,A,1\n0,B,1\n0,A,2\n", "The key city = 'A' cannot have append (0) after append (0)", 4),
        ("1,A,1\n2,A,2\n3,A,3\n", "The key city = 'A' cannot have correct-from (2) after retract (1)", 3),
        ("3,A,1\n", "cannot have correct-to (3) as its first change", 2),
        ("2,A,1\n0,B,1\n", "The correct-from of the key city = 'A' is not followed", 2),
        ("0,,1\n", "primary key column is null", 2),
    ],
)
def test_changes_that_make_no_sense_are_told_with_their_line(
    engine_call: EngineCall, rows: str, message: str, line: int
) -> None:
    dataset = Dataset(engine_call, merge=MergeStrategyChangelogStream(primary_key=("city",)))
    with pytest.raises(InvalidData) as caught:
        dataset.ingest(CHANGES, f"op,city,population\n{rows}".encode())
    assert message in caught.value.message
    assert (caught.value.place.file, caught.value.place.line) == ("file0", line)


def test_changes_need_their_kind_as_a_number(engine_call: EngineCall) -> None:
    changelog = MergeStrategyChangelogStream(primary_key=("city",))
    with pytest.raises(InvalidData, match="no column `op`") as caught:
        Dataset(engine_call, merge=changelog).ingest(CSV, b"city,population\nA,1\n")
    assert caught.value.place.rule == "BadInputSchema"
    named = ReadStepCsv(header=True, schema=ddl("op STRING", "city STRING"))
    for number, merge in enumerate((changelog, MergeStrategyUpsertStream(primary_key=("city",)))):
        with pytest.raises(InvalidData, match="must be an integer, but is string"):
            Dataset(engine_call, merge=merge, rounds=5 * (number + 1)).ingest(named, b"op,city\nc,A\n")


def test_the_last_row_of_a_key_is_that_of_the_last_file(engine_call: EngineCall) -> None:
    head = b"op,city,population\n"
    files = [head + b"0,A,1\n0,B,1\n", head + b"0,A,2\n1,B,0\n", head + b"0,C,3\n0,A,4\n"]
    dataset = Dataset(engine_call, merge=MergeStrategyUpsertStream(primary_key=("city",)))
    rows = dataset.ingest(CHANGES, *files)
    assert [(row["op"], row["city"], row["population"]) for row in rows] == [(0, "A", 4), (0, "C", 3)]


def test_where_a_query_loses_the_order_of_changes_each_key_has_one(engine_call: EngineCall) -> None:
    upserts = Dataset(engine_call, merge=MergeStrategyUpsertStream(primary_key=("city",)))
    grouped = sql("select city, population from input group by city, population")
    content = b"op,city,population\n0,A,1\n0,A,2\n"
    with pytest.raises(InvalidData, match="same primary key: city = 'A'"):
        upserts.ingest(CHANGES, content, preprocess=grouped)
    kept = upserts.ingest(CHANGES, content, preprocess=sql("select op, city, population + 1 as population from input"))
    assert [row["population"] for row in kept] == [3]
    changelog = Dataset(engine_call, merge=MergeStrategyChangelogStream(primary_key=("city",)), rounds=9)
    unordered = sql("select op, city, population from input group by op, city, population")
    rows = changelog.ingest(CHANGES, b"op,city,population\n1,A,2\n0,A,2\n0,B,1\n", preprocess=unordered)
    assert [(row["op"], row["city"]) for row in rows] == [(0, "A"), (1, "A"), (0, "B")]


def test_keys_name_line_and_value(engine_call: EngineCall) -> None:
    ledger = MergeStrategyLedger(primary_key=("city",))
    nullable = ReadStepCsv(header=True, schema=ddl("city STRING", "population BIGINT"))
    with pytest.raises(InvalidData) as caught:
        Dataset(engine_call, merge=ledger).ingest(nullable, b"city,population\nA,1\n,2\n")
    place = caught.value.place
    assert (place.file, place.line, place.field) == ("file0", 3, "city")
    with pytest.raises(InvalidData) as caught:
        Dataset(engine_call, merge=ledger, rounds=5).ingest(nullable, b"city,population\nA,1\n\nB,2\nA,2\n")
    assert (caught.value.place.file, caught.value.place.line) == ("file0", 5)
    assert "city = 'A'" in caught.value.message
    assert "line 2" in caught.value.message
    same = Dataset(engine_call, merge=ledger, rounds=10).ingest(nullable, b"city,population\nA,1\nB,2\nA,1\n")
    assert [row["city"] for row in same] == ["A", "B"]
    by_sql = sql("SELECT city, population FROM input UNION ALL SELECT city, population + 1 FROM input")
    with pytest.raises(InvalidData) as caught:
        Dataset(engine_call, merge=ledger, rounds=15).ingest(nullable, b"city,population\nA,1\n", preprocess=by_sql)
    assert "city = 'A'" in caught.value.message


# Preprocessing.


def test_preprocessing(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call)
    steps = sql(
        "SELECT city, population * 10 AS population FROM input",
        "SELECT upper(city) AS city, population FROM s0 WHERE population > 10",
    )
    rows = dataset.ingest(CSV, b"city,population\na,1\nb,2\nc,\n", preprocess=steps)
    assert [(row["city"], row["population"]) for row in rows] == [("B", 20)]
    # Spark knows what can be null: the key was declared required.
    assert not schema_of(dataset).field("city").nullable
    assert schema_of(dataset).field("population").nullable


def test_preprocessing_without_order_of_its_own_is_sorted(engine_call: EngineCall) -> None:
    content = b"city,population\n" + b"".join(b"c%d,%d\n" % (number % 50, number) for number in range(2000))
    grouped = sql("SELECT city, sum(population) AS population FROM input GROUP BY city")
    rows = Dataset(engine_call).ingest(CSV, content, preprocess=grouped)
    assert [row["city"] for row in rows] == sorted(f"c{number}" for number in range(50))


@pytest.mark.parametrize(
    ("query", "engine", "words"),
    [
        ("SELECT uuid() AS u FROM input", "spark", "not allowed"),
        ("SELECT * FROM csv.`/etc/passwd`", "spark", ""),
        ("SELECT * FROM elsewhere", "spark", "elsewhere"),
        ("SELECT nothing FROM input", "spark", "nothing"),
        ("SELECT 1 +", "spark", ""),
        ("SELECT * FROM input", "datafusion", "engine: spark"),
        ("SELECT * FROM input", "flink", "engine: spark"),
        ("SELECT * FROM input", "risingwave", "engine: spark"),
    ],
)
def test_sql_that_is_refused(engine_call: EngineCall, query: str, engine: str, words: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        Dataset(engine_call).ingest(CSV, b"city,population\nA,1\n", preprocess=sql(query, engine=engine))
    assert words in str(caught.value)


def test_a_row_that_makes_sql_fail(engine_call: EngineCall) -> None:
    with pytest.raises(InvalidData, match="zero"):
        Dataset(engine_call).ingest(
            CSV, b"city,population\nA,0\n", preprocess=sql("SELECT city, 1 DIV population AS x FROM input")
        )


def test_a_row_that_makes_sql_fail_is_named_with_its_line(engine_call: EngineCall) -> None:
    rows = "".join(f"C{number},{number - 50}\n" for number in range(200))
    query = "SELECT city,\n  1 DIV population AS x FROM input"
    with pytest.raises(InvalidData) as caught:
        Dataset(engine_call).ingest(CSV, f"city,population\n{rows}".encode(), preprocess=sql(query))
    assert "in row (city = 'C50', population = 0) of input" in caught.value.message
    place = caught.value.place
    assert (place.file, place.line, place.query_line, place.query_column) == ("file0", 52, 2, 3)


def test_a_group_that_makes_sql_fail_is_named_without_a_line(engine_call: EngineCall) -> None:
    query = "SELECT city, 1 DIV sum(population) AS x FROM input GROUP BY city"
    with pytest.raises(InvalidData) as caught:
        Dataset(engine_call).ingest(CSV, b"city,population\nA,1\nB,3\nB,-3\n", preprocess=sql(query))
    assert "in 2 rows of input, the first of them (city = 'B', population = 3)" in caught.value.message
    assert caught.value.place.file is None


def test_a_bad_cell_is_named_though_it_meets_sql_first(engine_call: EngineCall) -> None:
    with pytest.raises(InvalidData) as caught:
        Dataset(engine_call).ingest(CSV, b"city,population\nA,1\nB,x\n", preprocess=sql("SELECT * FROM input"))
    assert (caught.value.place.line, caught.value.place.field) == (3, "population")


# History.


def test_history_of_older_schemas(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call, merge=MergeStrategySnapshot(primary_key=("city",)))
    dataset.ingest(CSV, b"city,population\nA,1\nB,2\n")
    assert dataset.data_schema
    added = DataField(name="url", type=DataTypeOption(inner=DataTypeString()))
    dataset.data_schema = replace(dataset.data_schema, fields=(*dataset.data_schema.fields, added))
    wider = ReadStepCsv(header=True, schema=ddl("city STRING NOT NULL", "population BIGINT", "url STRING"))
    rows = dataset.ingest(wider, b"city,population,url\nA,1,\nB,2,u\nC,3,\n")
    assert [(row["op"], row["city"], row["url"]) for row in rows] == [(2, "B", None), (3, "B", "u"), (0, "C", None)]


def test_history_with_unsigned_system_columns(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call, merge=MergeStrategySnapshot(primary_key=("city",)))
    dataset.ingest(CSV, b"city,population\nA,1\nB,2\n")
    path = engine_call.exchange.root / dataset.history[0].path
    table = pq.read_table(path)
    for name, kind in (("offset", pa.uint64()), ("op", pa.uint8())):
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
    pq.write_table(table, path)
    rows = dataset.ingest(CSV, b"city,population\nB,3\n")
    assert [(row["offset"], row["op"], row["city"]) for row in rows] == [(2, 1, "A"), (3, 2, "B"), (4, 3, "B")]


def test_a_damaged_history_is_ours_to_answer_for(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call, merge=MergeStrategySnapshot(primary_key=("city",)))
    dataset.ingest(CSV, b"city,population\n" + b"".join(b"c%d,1\n" % number for number in range(500)))
    path = engine_call.exchange.root / dataset.history[0].path
    whole = path.read_bytes()
    for cut in (whole[:100], b""):
        path.write_bytes(cut)
        with pytest.raises(Corrupt) as caught:
            dataset.ingest(CSV, b"city,population\nA,1\n")
        assert caught.value.object_name == path.name
    path.unlink()
    with pytest.raises(Determinate):
        dataset.ingest(CSV, b"city,population\nA,1\n")


def test_an_empty_snapshot_retracts_and_nothing_new_writes_no_rows(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call, merge=MergeStrategySnapshot(primary_key=("city",)))
    content = b"city,population\nA,1\nB,\n"
    dataset.ingest(CSV, content)
    assert dataset.ingest(CSV, content) == []
    assert [(row["op"], row["city"]) for row in dataset.ingest(CSV, b"")] == [(1, "A"), (1, "B")]
    assert dataset.ingest(CSV, b"") == []


def test_nothing_at_all(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call)
    assert dataset.ingest(ReadStepNdJson(), b"") == []
    assert dataset.data_schema is None
    assert dataset.ingest(CSV, b"") == []
    assert dataset.data_schema is not None


def test_a_call_that_must_end_says_why(engine_call: EngineCall) -> None:
    reason = Determinate("the caller is gone")
    engine_call.stop.set(reason)
    with pytest.raises(OdfError) as caught:
        Dataset(engine_call).ingest(CSV, b"city,population\nA,1\n")
    assert caught.value is reason


def test_the_same_request_gives_the_same_hash_whatever_the_partitions(engine_call: EngineCall) -> None:
    table = pa.table({"k": [f"key {number * 7919 % 5000}" for number in range(5000)], "v": list(range(5000))})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=311)
    content = sink.getvalue().to_pybytes()
    hashes = set()
    for number, partitions in enumerate(("1", "2", "7")):
        engine_call.session.conf.set("spark.sql.shuffle.partitions", partitions)
        dataset = Dataset(engine_call, merge=MergeStrategyLedger(primary_key=("k",)), rounds=10 * number)
        dataset.ingest(ReadStepParquet(), content)
        hashes.add(logical_hash_of_parquet(engine_call.exchange.root / dataset.history[0].path).multihash)
    assert len(hashes) == 1
