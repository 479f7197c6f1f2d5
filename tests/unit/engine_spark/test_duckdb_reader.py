"""DuckDB beside Arrow: what it accepts, and that it accepts nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric_engine_spark.ingest.parquet.duckdb_reader import DuckdbReader
from odfabric_engine_spark.ingest.parquet.parquet_rows import open_strangers
from odfabric_engine_spark.ingest.parquet.parquet_survey import Survey, footer_of, survey
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.settings import EngineSettings

BATCH_ROWS = 300


def surveyed(path: Path, **limits: Any) -> tuple[Survey, EngineSettings]:
    engine = replace(EngineSettings(exchange=path.parent), **limits)
    exchange = ExchangeFolder.at(path.parent)
    call = EngineCall(session=cast(Any, None), exchange=exchange, settings=engine, scratch=path.parent)
    with open_strangers(path) as file:
        footer = footer_of(path, "f0", bytes_max=engine.parquet_footer_bytes_max)
        return survey(path, "f0", file, footer, file.schema_arrow.names, call), engine


def agreed(path: Path, staged: pa.Table, **limits: Any) -> frozenset[str]:
    """The columns that pass, `staged` being what Arrow is said to have found."""
    found, engine = surveyed(path, **limits)
    reader = DuckdbReader(
        path, found, staged.schema, engine, lambda array, name: array.cast(staged.schema.field(name).type)
    )
    for batch in staged.to_batches(BATCH_ROWS):
        reader.compare(dict(zip(batch.schema.names, batch.columns, strict=True)))
    reader.close()
    return reader.agreed


def written(folder: Path, table: pa.Table, name: str = "f", **options: Any) -> Path:
    path = folder / name
    pq.write_table(table, path, **options)
    return path


ROWS = 1000
VALUES: Mapping[str, pa.Array] = {
    "small": pa.array([number % 100 if number % 7 else None for number in range(ROWS)], pa.int8()),
    "unsigned": pa.array([number * 2**50 for number in range(ROWS)], pa.uint64()),
    "float": pa.array([float("nan") if number % 3 else -0.0 for number in range(ROWS)]),
    "single": pa.array([number / 3 for number in range(ROWS)], pa.float32()),
    "word": pa.array([f"word {number % 11} ü" if number % 5 else None for number in range(ROWS)]),
    "bytes": pa.array([bytes([number % 256, 0]) for number in range(ROWS)], pa.binary()),
    "truth": pa.array([number % 2 == 0 for number in range(ROWS)]),
    "day": pa.array(range(-1000, ROWS - 1000), pa.int32()).cast(pa.date32()),
    "time": pa.array([number * 999_999_937 for number in range(ROWS)], pa.timestamp("us", "UTC")),
    "nanos": pa.array([number * 999_999_937 for number in range(ROWS)], pa.timestamp("ns")),
    "price": pa.array([Decimal(number) / 100 for number in range(ROWS)], pa.decimal128(20, 2)),
    "list": pa.array([[number, None] if number % 3 else [] for number in range(ROWS)], pa.list_(pa.int64())),
    'quoted"`.': pa.array(range(ROWS)),
    "filename": pa.array(range(ROWS)),
    "_metadata": pa.array(range(ROWS)),
}
TABLE = pa.table(dict(VALUES))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"data_page_version": "2.0", "compression": "zstd", "row_group_size": 333},
        {"use_dictionary": False, "compression": "none"},
        {"compression": "gzip", "row_group_size": 999},
    ],
    ids=["usual", "pages-2", "plain", "gzip"],
)
def test_values_of_every_kind_agree(tmp_path: Path, options: dict[str, Any]) -> None:
    assert agreed(written(tmp_path, TABLE, **options), TABLE) == set(TABLE.column_names)


def other(array: pa.Array, row: int) -> pa.Array:
    """The array with null where it had a value, or another value where it had none."""
    values = array.to_pylist()
    values[row] = None if values[row] is not None else next(value for value in values if value is not None)
    return pa.array(values, array.type)


@settings(max_examples=30)
@given(name=st.sampled_from(sorted(VALUES)), row=st.integers(0, ROWS - 1))
def test_one_other_value_is_seen(tmp_path_factory: pytest.TempPathFactory, name: str, row: int) -> None:
    path = tmp_path_factory.getbasetemp() / "one-other-value"
    if not path.exists():
        pq.write_table(TABLE, path, row_group_size=400)
    staged = TABLE.set_column(TABLE.schema.get_field_index(name), name, other(VALUES[name], row))
    assert agreed(path, staged) == set(TABLE.column_names) - {name}


def test_bits_of_floating_point_numbers_are_compared(tmp_path: Path) -> None:
    path = written(tmp_path, pa.table({"v": [0.0, 1.0]}))
    assert agreed(path, pa.table({"v": [0.0, 1.0]})) == {"v"}
    assert agreed(path, pa.table({"v": [-0.0, 1.0]})) == frozenset()


def test_rows_that_one_reader_does_not_have(tmp_path: Path) -> None:
    path = written(tmp_path, TABLE)
    assert agreed(path, TABLE.slice(0, ROWS - 1)) == frozenset()
    assert agreed(path, pa.concat_tables([TABLE, TABLE.slice(0, 1)])) == frozenset()


def test_what_duckdb_is_not_asked(tmp_path: Path) -> None:
    plain = pa.table({"v": [1, 2]})
    assert agreed(written(tmp_path, plain, write_page_checksum=True), plain) == frozenset()
    assert agreed(written(tmp_path, plain, compression="brotli"), plain) == frozenset()
    twins = pa.table({"a": [1], "A": [2], "b": [3]})
    assert agreed(written(tmp_path, twins), twins) == frozenset()
    pattern = written(tmp_path, plain, name="f[a]*")
    written(tmp_path, plain, name="fa")
    assert agreed(pattern, plain) == frozenset()
    assert agreed(written(tmp_path, plain, name="it's"), plain) == {"v"}


def test_rows_that_may_be_large_are_left_to_spark(tmp_path: Path) -> None:
    """DuckDB decodes two thousand rows at once, of whatever size."""
    table = pa.table({"v": pa.array(["x" * 100_000] * 3000).dictionary_encode(), "n": list(range(3000))})
    path = written(tmp_path, table)
    plain = table.set_column(0, "v", table["v"].cast(pa.string()))
    assert agreed(path, plain, batch_bytes=1024 * 1024) == {"n"}
    large = pa.table({"v": ["x" * 100_000] * 3, "n": [1, 2, 3]})
    assert agreed(written(tmp_path, large, use_dictionary=False), large, batch_bytes=1024 * 1024) == frozenset()
    few = written(tmp_path, table.select(["n"]))
    assert agreed(few, table.select(["n"]), parquet_unchecked_bytes_max=1) == frozenset()


def test_damage_that_duckdb_refuses_is_left_to_spark(tmp_path: Path) -> None:
    table = pa.table({"v": ["abc"] * 100, "w": [datetime(2024, 1, 1, tzinfo=UTC)] * 100})
    path = written(tmp_path, table, use_dictionary=False, compression="none")
    content = path.read_bytes()
    value = len("abc").to_bytes(4, "little")
    path.write_bytes(content.replace(value + b"abc", value + b"a\xffc", 1))
    assert "v" not in agreed(path, table)
