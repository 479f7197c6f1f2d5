"""Column names at an ingest: renaming is reported, refusals say a way out."""

from __future__ import annotations

import io
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidData, LimitExceeded
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_schema import new_slice_schema
from odfabric.model.engine import RenamedColumn
from odfabric.model.metadata import TransformSql
from odfabric.model.source import ReadStep, ReadStepCsv, ReadStepNdJson, ReadStepParquet
from odfabric_engine_spark.ingest.ingest_files import ingest
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.ingesting import Dataset
from tests.services.engine.ingest.test_ingest import lines
from tests.services.engine.sql.validating import validate

pytestmark = pytest.mark.spark


def test_columns_that_are_renamed_are_told(engine_call: EngineCall) -> None:
    dataset = Dataset(engine_call)
    result = ingest(dataset.request(ReadStepNdJson(), lines({"op": 123, "foo": "bar", "offset": 7})), engine_call)
    assert result.renamed == (
        RenamedColumn(name="offset", stored_as="_offset"),
        RenamedColumn(name="op", stored_as="_op"),
    )
    other = own(engine_call, "plain")
    assert ingest(Dataset(other, rounds=5).request(ReadStepNdJson(), lines({"foo": 1})), other).renamed == ()


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("Total", "total", "Column `total` and column `Total` differ in case only"),
        ("Event_Time", "b", "Column `Event_Time` and column `event_time` differ in case only"),
        ("Offset", "b", "Column `Offset` and column `offset` differ in case only"),
        ("a\nb", "b", "control character U+000A"),
        (" ", "b", "has no name"),
        ("x" * 1025, "b", "has a name of 1025 bytes, at most 1024 are allowed"),
    ],
)
@pytest.mark.parametrize("reader", ["csv", "json", "parquet"])
def test_names_that_a_new_dataset_cannot_have(
    engine_call: EngineCall, reader: str, first: str, second: str, message: str
) -> None:
    read: ReadStep = ReadStepCsv(header=True, infer_schema=True)
    content = f'"{first}","{second}"\n1,2\n'.encode()
    if reader == "json":
        read, content = ReadStepNdJson(), lines({first: 1, second: 2})
    if reader == "parquet":
        sink = io.BytesIO()
        pq.write_table(pa.table({first: [1], second: [2]}), sink)
        read, content = ReadStepParquet(), sink.getvalue()
    dataset = Dataset(engine_call)
    with pytest.raises(LimitExceeded if "1025" in message else InvalidData) as caught:
        dataset.ingest(read, content)
    assert message in caught.value.message or message in caught.value.message.replace(first, second)
    assert "preprocess query" in str(caught.value)
    assert len(str(caught.value)) < 1000
    # What a query makes of them may be kept.
    quoted = first.replace("`", "``")
    renaming = TransformSql(engine="spark", query=f"SELECT `{quoted}` AS one, `{second}` AS two FROM input")
    (row,) = dataset.ingest(read, content, preprocess=renaming)
    assert (row["one"], row["two"]) == (1, 2)
    # And a dataset that has such columns goes on taking them.
    names = [first, second] if reader != "json" else sorted([first, second])
    old = Dataset(own(engine_call, "old"), rounds=20)
    old.data_schema = arrow_to_data_schema(
        new_slice_schema([pa.field(name, pa.int64()) for name in names], vocabulary=old.vocabulary)
    )
    (row,) = old.ingest(read, content)
    assert (row[first], row[second]) == (1, 2)


def test_known_columns_are_not_judged_again(engine_call: EngineCall) -> None:
    request = Dataset(engine_call).request(ReadStepNdJson(), lines({"A": 1, "a": 2}))
    with pytest.raises(InvalidData, match="differ in case only"):
        ingest(request, own(engine_call, "one"))
    known = replace(request, known_columns=("A", "a"))
    assert ingest(known, own(engine_call, "two")).offsets is not None


def test_names_of_an_input_have_a_limit_together(engine_call: EngineCall) -> None:
    rows = lines({"a" * 500: 1, "s": {"b" * 499: 1}})
    renaming = TransformSql(engine="spark", query=f"SELECT {'a' * 500} AS a FROM input")
    for maximum, fits in ((1000, True), (999, False)):
        settings = replace(engine_call.settings, column_names_bytes_max=maximum)
        dataset = Dataset(replace(own(engine_call, f"n{maximum}"), settings=settings), rounds=maximum)
        if fits:
            assert [row["a"] for row in dataset.ingest(ReadStepNdJson(), rows, preprocess=renaming)] == [1]
        else:
            with pytest.raises(LimitExceeded) as caught:
                dataset.ingest(ReadStepNdJson(), rows, preprocess=renaming)
            assert caught.value.limit == "column_names_bytes_max"


def own(call: EngineCall, name: str) -> EngineCall:
    """The call with scratch files of its own: one call runs one ingest."""
    (call.scratch / name).mkdir()
    return replace(call, scratch=call.scratch / name)


def test_names_of_a_transform_are_judged_when_it_is_declared(engine_call: EngineCall) -> None:
    long = "x" * 1025
    result = validate(engine_call, f"SELECT event_time, k AS `a\tb`, v AS {long} FROM a")
    assert [(problem.rule, problem.line) for problem in result.problems] == [("column-name", 1)] * 2
    assert "U+0009" in result.problems[0].message
    assert "at most 1024" in result.problems[1].message
    assert [problem.column for problem in result.problems] == [20, 32]
    assert not validate(engine_call, "SELECT event_time, k AS `a b`, v AS `ціна, грн` FROM a").problems
