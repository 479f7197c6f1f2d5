"""Untrusted Parquet: damage is refused with its place, bombs before unpacking."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidData, LimitExceeded, OdfError
from odfabric.formats.parquet.parquet_pages import Page, pages_of_chunk
from odfabric.model.source import ReadStepParquet
from odfabric_engine_spark.ingest.parquet.parquet_rows import open_strangers
from odfabric_engine_spark.ingest.parquet.parquet_survey import footer_of, survey
from odfabric_engine_spark.ingest.parquet.second_reader import SecondReader
from odfabric_engine_spark.ingest.staging import StagingWriter
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.settings import MIB
from tests.services.engine.engine_process import EngineUnderTest
from tests.services.engine.ingest.reading import refusal, values
from tests.services.engine.ingest.test_read_parquet import column, outcome, parquet
from tests.services.engine.process.test_server import ignore, ingest_request

pytestmark = pytest.mark.spark

PLAIN: dict[str, Any] = {"compression": "none", "use_dictionary": False}


def limited(call: EngineCall, **limits: int) -> EngineCall:
    return replace(call, settings=replace(call.settings, **limits))


def dictionary_bomb(rows: int = 1_000_000) -> bytes:
    """A dictionary of a megabyte and many references: a terabyte in kilobytes."""
    array = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * MIB]))
    return parquet(pa.table({"v": array}), compression="zstd", write_statistics=False)


def list_bomb(items: int) -> bytes:
    array = pa.ListArray.from_arrays(pa.array([0, items], pa.int32()), pa.repeat(pa.scalar(1), items))
    return parquet(pa.table({"v": array}), compression="zstd")


def limit_of(error: OdfError) -> str:
    assert isinstance(error, LimitExceeded), error
    assert error.place.file == "f0"
    return error.limit


def test_bombs_are_refused_by_the_limit_that_they_exceed(engine_call: EngineCall) -> None:
    page = parquet(column(["x" * 256 * MIB]), compression="zstd", use_dictionary=False, write_statistics=False)
    assert len(page) < 9_000
    assert limit_of(refusal(engine_call, ReadStepParquet(), page)) == "parquet_page_bytes_max"
    words = dictionary_bomb()
    assert len(words) < 9_000
    assert limit_of(refusal(engine_call, ReadStepParquet(), words)) == "input_unpacked_bytes_max"
    nested = pa.ListArray.from_arrays(
        pa.array([0, 1_000_000], pa.int32()),
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int32)), pa.array(["x" * MIB])),
    )
    lists = parquet(pa.table({"v": nested}), compression="zstd", write_statistics=False)
    assert limit_of(refusal(engine_call, ReadStepParquet(), lists)) == "line_bytes_max"
    numbers = list_bomb(100_000_000)
    assert len(numbers) < 1_000
    assert limit_of(refusal(engine_call, ReadStepParquet(), numbers)) == "parquet_decoded_bytes_max"
    deltas = pa.table({"v": [("x" * 100_000) + str(number % 10) for number in range(2_000)]})
    prefixes = parquet(deltas, use_dictionary=False, column_encoding={"v": "DELTA_BYTE_ARRAY"}, write_statistics=False)
    assert len(prefixes) < 100_000
    small = limited(engine_call, input_unpacked_bytes_max=100 * MIB)
    assert limit_of(refusal(small, ReadStepParquet(), prefixes)) == "input_unpacked_bytes_max"


def claimed(table: pa.Table) -> int:
    """A column's unpacked size by the footer: its pages with their headers."""
    return int(
        pq.ParquetFile(io.BytesIO(parquet(table, **PLAIN))).metadata.row_group(0).column(0).total_uncompressed_size
    )


def pages(content: bytes, chunk: int = 0) -> list[Page]:
    """The pages of a column of the first row group."""
    found = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0).column(chunk)
    start = found.dictionary_page_offset or found.data_page_offset
    return list(pages_of_chunk(lambda at, count: content[at : at + count], start, start + found.total_compressed_size))


LISTS = column([[1, 2, 3]] * 100, pa.list_(pa.int64()))
TEXTS = [f"{number:04} {'x' * 100}" for number in range(1000)]


@pytest.mark.parametrize(
    ("limit", "table", "options", "needs"),
    [
        ("parquet_page_bytes_max", column(list(range(1000)), pa.int64()), {}, 8_007),
        ("parquet_pages_max", column(list(range(1000)), pa.int64()), {"row_group_size": 100}, 10),
        ("input_unpacked_bytes_max", column(TEXTS), {}, claimed(column(TEXTS))),
        ("line_bytes_max", column(["a", "b" * 96, "c"]), {}, 100),
        ("parquet_decoded_bytes_max", LISTS, {}, pages(parquet(LISTS, **PLAIN))[0].unpacked + 4_800 + 48),
        ("parquet_footer_bytes_max", LISTS, {}, int.from_bytes(parquet(LISTS, **PLAIN)[-8:-4], "little")),
        ("parquet_unchecked_bytes_max", column(list(range(1000)), pa.int64()), {}, 3 * 8_007),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_limits_on_both_sides(
    engine_call: EngineCall, limit: str, table: pa.Table, options: dict[str, int], needs: int
) -> None:
    content = parquet(table, **PLAIN, **options)
    assert values(limited(engine_call, **{limit: needs}), ReadStepParquet(), content) == table.to_pylist()
    assert limit_of(refusal(limited(engine_call, **{limit: needs - 1}), ReadStepParquet(), content)) == limit


def test_large_columns_with_checksums_need_no_second_reader(engine_call: EngineCall) -> None:
    content = parquet(column(TEXTS), write_page_checksum=True)
    small = limited(engine_call, parquet_unchecked_bytes_max=1)
    assert values(small, ReadStepParquet(), content) == column(TEXTS).to_pylist()


def test_a_node_may_require_checksums(engine_call: EngineCall) -> None:
    strict = replace(engine_call, settings=replace(engine_call.settings, parquet_checksums_required=True))
    table = column([1, 2, 3])
    error = refusal(strict, ReadStepParquet(), parquet(table))
    assert isinstance(error, InvalidData)
    assert (error.place.file, error.place.field) == ("f0", "v")
    assert values(strict, ReadStepParquet(), parquet(table, write_page_checksum=True)) == table.to_pylist()


def test_limits_count_over_all_files_of_an_ingest(engine_call: EngineCall) -> None:
    content = parquet(column(TEXTS), **PLAIN)
    size = pages(content)[0].unpacked + claimed(column(TEXTS))
    two = limited(engine_call, input_unpacked_bytes_max=size)
    assert len(values(two, ReadStepParquet(), content, content)) == 2000
    one = limited(engine_call, input_unpacked_bytes_max=size - 1)
    error = refusal(one, ReadStepParquet(), content, content)
    assert isinstance(error, LimitExceeded)
    assert error.place.file == "f1"


def test_rows_that_are_decoded_in_small_batches_are_the_same(engine_call: EngineCall) -> None:
    rows = [
        {"v": "word " * (number % 7), "l": [number] * (number % 5) if number % 3 else None} for number in range(3000)
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema([("v", pa.string()), ("l", pa.list_(pa.int64()))]))
    small = limited(engine_call, batch_bytes=500, batch_rows=100)
    for options in ({}, PLAIN, {"row_group_size": 7}, {"data_page_version": "2.0", "max_rows_per_page": 50}):
        assert values(small, ReadStepParquet(), parquet(table, **options)) == rows


EVERY_TYPE = pa.table(
    {
        "nanos": pa.array([-1, 1_577_934_245_678_999_999, None], pa.timestamp("ns")),
        "naive": pa.array([-1, 1_577_934_245_678_999, None], pa.timestamp("us")),
        "unsigned": pa.array([0, 2**63 - 1, None], pa.uint64()),
        "decimal": pa.array([Decimal("-1.20"), Decimal("99999999.99"), None], pa.decimal128(10, 2)),
        "fixed": pa.array([b"abc", b"\0\0\0", None], pa.binary(3)),
        "word": pa.array(["a", "a", None]).dictionary_encode(),
        "float": pa.array([float("nan"), -0.0, None]),
        "lists": pa.array([[[1, None], None], [], None], pa.list_(pa.list_(pa.int16()))),
        "struct": pa.array([{"a b": [None, datetime(2020, 1, 2, tzinfo=UTC)]}, {"a b": None}, None],
                           pa.struct([("a b", pa.list_(pa.timestamp("ns", "UTC")))])),
        "a`b.c": pa.array([1, 2, None]),
        "_metadata": pa.array([1, 2, None]),
    }
)  # fmt: skip


@pytest.mark.parametrize(
    "options", [{}, {"data_page_version": "2.0"}, PLAIN, {"use_deprecated_int96_timestamps": True}]
)
def test_both_readers_agree_on_every_type(engine_call: EngineCall, options: dict[str, Any]) -> None:
    twice = values(engine_call, ReadStepParquet(), parquet(EVERY_TYPE, **options), parquet(EVERY_TYPE, **options))
    assert repr(twice[:3]) == repr(twice[3:])
    checked = parquet(EVERY_TYPE, write_page_checksum=True, **options)
    assert repr(values(engine_call, ReadStepParquet(), checked)) == repr(twice[:3])


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_every_codec_is_read_with_checksums_and_without(engine_call: EngineCall, codec: str) -> None:
    table = pa.table({"v": list(range(100)), "t": [None, "a", "b", "b"] * 25})
    for options in ({"write_page_checksum": True}, {}, {"use_dictionary": False}):
        content = parquet(table, compression=codec, **options)
        assert values(engine_call, ReadStepParquet(), content) == table.to_pylist()
        for broken in (content[: len(content) // 2], content[:20] + content[24:]):
            assert isinstance(refusal(engine_call, ReadStepParquet(), broken), InvalidData)
    strict = limited(engine_call, parquet_checksums_required=True)
    assert "checksums" in refusal(strict, ReadStepParquet(), parquet(table, compression=codec)).message


def test_a_codec_that_no_reader_has_is_refused_by_name(engine_call: EngineCall) -> None:
    content = parquet(column([1, 2, 3]), compression="snappy")
    name_and_codec = b"\x18\x01v\x15\x02"
    assert content.count(name_and_codec) == 1
    error = refusal(engine_call, ReadStepParquet(), content.replace(name_and_codec, b"\x18\x01v\x15\x06"))
    assert isinstance(error, InvalidData)
    assert (error.place.file, error.place.field) == ("f0", "v")
    assert "LZO" in error.message
    assert "snappy" in (error.hint or "")


@pytest.mark.parametrize("encoding", ["BYTE_STREAM_SPLIT", "DELTA_BINARY_PACKED", "PLAIN"])
def test_encodings_that_only_the_slower_decoder_knows(engine_call: EngineCall, encoding: str) -> None:
    table = column(list(range(100)), pa.int64())
    content = parquet(table, use_dictionary=False, column_encoding={"v": encoding})
    assert values(engine_call, ReadStepParquet(), content) == table.to_pylist()


def test_readers_that_disagree_are_told_with_column_and_row(engine_call: EngineCall, tmp_path: Path) -> None:
    table = pa.table({"a": list(range(500)), "b": [[number] for number in range(500)]})
    staged = table.set_column(
        1, "b", pa.array([[number] if number != 321 else [number, None] for number in range(500)])
    )
    path = tmp_path / "given"
    pq.write_table(table, path, row_group_size=200)
    writer = StagingWriter(engine_call, staged.schema, "staged")
    for part in (table, staged):
        writer.write(part.combine_chunks().to_batches()[0].columns)
    rows = writer.finish()
    with open_strangers(path) as file:
        found = survey(path, "f0", file, footer_of(path, "f0", bytes_max=MIB), table.schema.names, engine_call)
    reader = SecondReader(engine_call, path, "f0", found, table.schema, table.schema)
    reader.check(rows, 0)
    with pytest.raises(InvalidData, match="two readers find different values in column `b`") as refused:
        reader.check(rows, 500)
    assert (refused.value.place.row, refused.value.place.field) == (322, "b")
    assert "row group 2" in refused.value.message


def changed(content: bytes, position: int, new: bytes) -> bytes:
    return content[:position] + new + content[position + len(new) :]


def refused(call: EngineCall, content: bytes) -> str:
    """The message in which a damaged file is refused, with file and column."""
    error = refusal(call, ReadStepParquet(), content)
    assert isinstance(error, InvalidData)
    assert (error.place.file, error.place.field) == ("f0", "v")
    assert error.message.startswith("The file is damaged in row group 1: ")
    assert error.hint
    return error.message


def test_values_beyond_the_statistics_are_damage(engine_call: EngineCall) -> None:
    for array, new in (
        (pa.array(range(100, 200), pa.int64()), (7).to_bytes(8, "little")),
        (pa.array(range(100, 200), pa.int32()), (777).to_bytes(4, "little")),
        (pa.array(range(100, 200), pa.timestamp("us", "UTC")), (7).to_bytes(8, "little")),
        (pa.array(np.linspace(1, 2, 100)), np.float64(3).tobytes()),
        (pa.array([Decimal(number) for number in range(100, 200)], pa.decimal128(20, 2)), bytes(9)),
        (pa.array([f"{number}" for number in range(100, 200)]), (3).to_bytes(4, "little") + b"~~~"),
    ):
        content = parquet(column(array), **PLAIN)
        (page,) = pages(content)
        width = (page.unpacked - 6) // 100
        assert "least and greatest" in refused(engine_call, changed(content, page.end - 50 * width, new))
        # Within them it is a value like any other.
        same = content[page.end - 49 * width :][:width]
        assert len(values(engine_call, ReadStepParquet(), changed(content, page.end - 50 * width, same))) == 100


def test_unsigned_integers_have_no_bounds_that_all_writers_agree_on(engine_call: EngineCall) -> None:
    table = column([1, 2**32 - 1], pa.uint32())
    assert values(engine_call, ReadStepParquet(), parquet(table)) == table.to_pylist()


def test_nulls_are_counted_against_the_statistics(engine_call: EngineCall) -> None:
    for array in (
        pa.array([number if number % 3 else None for number in range(200)]),
        pa.array([[number, None] if number % 3 else None for number in range(200)]),
        pa.array([{"x": number} if number % 3 else None for number in range(200)], pa.struct([("x", pa.int64())])),
    ):
        content = parquet(column(array), **PLAIN)
        (page,) = pages(content)
        seen = set[str]()
        for position in range(page.start + 4, page.start + 40):
            found = outcome(engine_call, changed(content, position, bytes([content[position] ^ 2])))
            if isinstance(found, InvalidData):
                seen.add(found.message.partition(": ")[2].split(" the footer")[0][:8])
            else:
                assert sum(row["v"] is None for row in found) == array.null_count or pa.types.is_nested(array.type)
        assert any(text.startswith("it has ") for text in seen)


OPTIONS: list[dict[str, Any]] = [
    {"compression": codec, "data_page_version": version, "use_dictionary": words}
    for codec in ("none", "snappy", "gzip", "zstd")
    for version in ("1.0", "2.0")
    for words in (True, False)
]
MIXED = pa.table(
    {
        "v": pa.array([f"text {number % 37}" if number % 5 else None for number in range(600)]),
        "l": pa.array([[number % 7] * (number % 4) if number % 9 else None for number in range(600)]),
        "f": pa.array([number / 7 for number in range(600)]),
    }
)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_no_flipped_bit_gets_past_checksums(engine_call: EngineCall, options: dict[str, Any]) -> None:
    content = parquet(MIXED, row_group_size=300, write_page_checksum=True, **options)
    whole = MIXED.to_pylist()
    for bad in flipped(content, 12):
        found = outcome(engine_call, bad)
        assert found == whole or isinstance(found, InvalidData)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_without_checksums_a_flipped_bit_is_refused_or_changes_nothing_that_is_counted(
    engine_call: EngineCall, options: dict[str, Any]
) -> None:
    content = parquet(MIXED, row_group_size=300, **options)
    for bad in flipped(content, 6):
        found = outcome(engine_call, bad)
        if isinstance(found, InvalidData):
            assert found.place.file == "f0"
            continue
        assert [row["v"] is None for row in found].count(True) == MIXED["v"].null_count
        assert sum(max(1, len(row["l"] or ())) for row in found) == sum(
            max(1, len(each or ())) for each in MIXED["l"].to_pylist()
        )
        assert all(0 <= row["f"] <= 600 / 7 for row in found)


def flipped(content: bytes, count: int) -> Iterator[bytes]:
    """The file with one bit changed before its footer, each time another one."""
    footer = int.from_bytes(content[-8:-4], "little") + 8
    chance = random.Random(len(content))
    for _ in range(count):
        position = chance.randrange(4, len(content) - footer)
        yield changed(content, position, bytes([content[position] ^ (1 << chance.randrange(8))]))


def test_no_flipped_bit_of_a_page_header_changes_rows(engine_call: EngineCall) -> None:
    table = column([number % 50 if number % 3 else None for number in range(100)], pa.int32())
    content = parquet(table, write_statistics=False, compression="none")
    begin = 4
    for page in pages(content):
        for position in range(begin, page.start):
            for bit in range(8):
                found = outcome(engine_call, changed(content, position, bytes([content[position] ^ (1 << bit)])))
                assert isinstance(found, InvalidData) or found == table.to_pylist(), (position, bit)
        begin = page.end


def test_no_flipped_bit_of_a_footer_is_a_bug_or_ends_the_process(engine_call: EngineCall) -> None:
    content = parquet(MIXED, row_group_size=300)
    size = int.from_bytes(content[-8:-4], "little") + 8
    chance = random.Random(11)
    seen = set[str]()
    for _ in range(150):
        position = chance.randrange(len(content) - size, len(content))
        try:
            values(
                engine_call,
                ReadStepParquet(),
                changed(content, position, bytes([content[position] ^ (1 << chance.randrange(8))])),
            )
            seen.add("read")
        except OdfError as error:
            seen.add(error.code if error.place.file == "f0" or error.place.field else "no place")
    assert {"read", "invalid-data"} <= seen <= {"read", "invalid-data", "limit-exceeded", "incompatible-schema"}


def test_a_column_in_another_file_is_refused(engine_call: EngineCall, tmp_path: Path) -> None:
    path = tmp_path / "given"
    pq.write_table(column([1, 2, 3]), path)
    metadata = pq.ParquetFile(path).metadata
    metadata.set_file_path("../elsewhere")
    metadata.write_metadata_file(tmp_path / "footer")
    footer = (tmp_path / "footer").read_bytes()[4:]
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little") + 8
    assert "another file" in refused(engine_call, content[:-size] + footer)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineUnderTest]:
    process = EngineUnderTest(tmp_path_factory.mktemp("engine"))
    yield process
    assert process.stop() == 0, process.log.read_text()[-2000:]


def peak_mib(pid: int) -> int:
    """Most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) // 1024


def python_peak_mib(engine: EngineUnderTest) -> int:
    """Most memory of the engine's largest process of Python: the one that decodes."""
    pids = [engine.process.pid, *engine.inner_pids]
    return max(peak_mib(pid) for pid in pids if "java" not in Path(f"/proc/{pid}/comm").read_text())


@pytest.mark.alone
def test_an_engine_survives_bombs_and_takes_the_next_push_at_once(engine: EngineUnderTest) -> None:
    pushed = parquet(column(list(range(1000))))
    bombs = {
        "page": parquet(column(["x" * 256 * MIB]), compression="zstd", use_dictionary=False, write_statistics=False),
        "words": dictionary_bomb(),
        "list": list_bomb(100_000_000),
    }
    pids = {engine.process.pid, *engine.inner_pids}
    with engine.client() as client:
        client.ingest(ingest_request(engine, "before", pushed, read=ReadStepParquet()), progress=ignore)
        before = python_peak_mib(engine)
        for name, bomb in bombs.items():
            with pytest.raises(LimitExceeded):
                client.ingest(ingest_request(engine, name, bomb, read=ReadStepParquet()), progress=ignore)
            started = time.monotonic()
            client.ingest(ingest_request(engine, f"after-{name}", pushed, read=ReadStepParquet()), progress=ignore)
            assert time.monotonic() - started < 20
        assert python_peak_mib(engine) - before < 1024
        # As large as is allowed in all, from next to nothing.
        rows = 1_000
        long = ingest_request(engine, "long", dictionary_bomb(rows), read=ReadStepParquet())
        result = client.ingest(long, progress=ignore)
        assert result.offsets is not None
        assert len(result.offsets) == rows
        # Rows that wait, two row groups and their encoders: not the gigabyte, and not thrice.
        assert python_peak_mib(engine) - before < 1536
    assert {engine.process.pid, *engine.inner_pids} == pids
