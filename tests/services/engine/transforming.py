"""Datasets that grow by blocks, and their derivatives, for transform tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.checkpoint_header import checkpoint_bases
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import SliceFile, TransformRequest, TransformRequestInput, TransformResult, TransformStep
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import SqlQueryStep, TemporalTable, TransformSql
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.execute.execute_transform import execute_transform
from odfabric_engine_spark.spark.calls.call import EngineCall

MILLIS = pa.timestamp("ms", "UTC")
HOUR = 3_600_000
A, R, CF, CT = 0, 1, 2, 3
_MAX_RESULT = "spark.driver.maxResultSize"


def input_schema(*columns: pa.Field, event_time: pa.Field | None = None) -> pa.Schema:
    """Columns of an input: the system columns, then these."""
    return pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("op", pa.int32(), nullable=False),
            pa.field("system_time", MILLIS, nullable=False),
            event_time or pa.field("event_time", MILLIS, nullable=False),
            *columns,
        ]
    )


@dataclass
class Input:
    """An input dataset: `add` appends a block, with the slice that it brings."""

    folder: Path
    alias: str
    schema: pa.Schema
    number: int = 1
    steps: list[TransformStep] = field(default_factory=list)
    slices: list[SliceFile] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def id(self) -> DatasetId:
        return DatasetId(bytes([self.number]) * 32)

    @property
    def data_schema(self) -> DataSchema:
        return arrow_to_data_schema(self.schema)

    def add(self, rows: Sequence[tuple[Any, ...]], *, watermark: int | None = None, at: int | None = None) -> Input:
        """A block of rows (op, event time, further columns); times in milliseconds."""
        time = len(self.steps) * 1000 if at is None else at
        begin = len(self.rows)
        if rows:
            full = [(begin + index, row[0], time, *row[1:]) for index, row in enumerate(rows)]
            columns = list(zip(*full, strict=True))
            arrays = [pa.array(list(values), item.type) for values, item in zip(columns, self.schema, strict=True)]
            path = f"{self.alias.replace('/', '_')}-{len(self.slices)}"
            with SliceWriter(self.folder / path, self.schema) as writer:
                for batch in pa.Table.from_arrays(arrays, schema=self.schema).to_batches():
                    writer.write(batch)
            self.slices.append(SliceFile(path=path, offsets=OffsetRange(begin, begin + len(rows))))
            self.rows += full
        self.steps.append(
            TransformStep(
                system_time=Instant.from_millis(time),
                last_offset=len(self.rows) - 1 if self.rows else None,
                watermark=None if watermark is None else Instant.from_millis(watermark),
            )
        )
        return self


@dataclass
class Transaction:
    """A transaction's records as (op, own columns) tuples, and its files."""

    request: TransformRequest
    result: TransformResult
    table: pa.Table
    slice_path: Path
    checkpoint_path: Path

    @property
    def records(self) -> list[tuple[Any, ...]]:
        shown = self.table.drop_columns(["offset", "system_time"])
        return list(zip(*(column.to_pylist() for column in shown.columns), strict=True)) if shown.num_rows else []


class Requests:
    """What is asked for a derivative dataset, transaction by transaction."""

    def __init__(
        self,
        query: str | Sequence[tuple[str | None, str]],
        inputs: Sequence[Input],
        *,
        name: str = "out",
        temporal_tables: Sequence[TemporalTable] = (),
        whole_checkpoints: bool = False,
    ) -> None:
        """`whole_checkpoints`: like the reference, hand over one file without its hash."""
        self.whole_checkpoints = whole_checkpoints
        steps = [(None, query)] if isinstance(query, str) else query
        queries = tuple(SqlQueryStep(alias=alias, query=sql) for alias, sql in steps)
        self.transform = TransformSql(engine="spark", queries=queries, temporal_tables=tuple(temporal_tables) or None)
        self.inputs = list(inputs)
        self.name = name
        self.taken = [0] * len(inputs)
        self.transactions: list[Transaction] = []

    def request(self, upto: Sequence[int] | None = None) -> TransformRequest:
        """The request for the blocks up to the given number of each input."""
        ends = [len(one.steps) for one in self.inputs] if upto is None else upto
        last = self.transactions[-1] if self.transactions else None
        number, checkpoints = len(self.transactions), self._checkpoints()
        offsets = [t.result.offsets.end for t in self.transactions if t.result.offsets is not None]
        return TransformRequest(
            dataset_id=DatasetId(b"\x7f" * 32),
            vocabulary=DatasetVocabulary(),
            transform=self.transform,
            inputs=tuple(_request_input(one, self.taken[i], ends[i]) for i, one in enumerate(self.inputs)),
            data_schema=None if last is None else last.result.data_schema,
            prev_watermark=None if last is None else last.result.watermark,
            system_time=Instant.from_millis(10_000_000 + number),
            next_offset=offsets[-1] if offsets else 0,
            checkpoint_paths=tuple(checkpoints.values()),
            new_checkpoint_path=f"{self.name}-checkpoint-{number}",
            new_data_path=f"{self.name}-data-{number}",
            checkpoint_hashes=() if self.whole_checkpoints else tuple(checkpoints),
        )

    def _checkpoints(self) -> dict[Multihash, str]:
        """The last checkpoint and its bases, as a coordinator hands them over."""
        if not self.transactions:
            return {}
        known = {physical_hash(each.checkpoint_path)[0]: each.request.new_checkpoint_path for each in self.transactions}
        last = self.transactions[-1].checkpoint_path
        return {name: known[name] for name in (physical_hash(last)[0], *checkpoint_bases(last))}


class Derivative(Requests):
    """A derivative dataset: `pull` takes what is new in its inputs."""

    def __init__(
        self,
        query: str | Sequence[tuple[str | None, str]],
        inputs: Sequence[Input],
        call: EngineCall,
        *,
        name: str = "out",
        settings: Mapping[str, int] | None = None,
        temporal_tables: Sequence[TemporalTable] = (),
        whole_checkpoints: bool = False,
    ) -> None:
        super().__init__(query, inputs, name=name, temporal_tables=temporal_tables, whole_checkpoints=whole_checkpoints)
        self.call = replace(call, settings=replace(call.settings, **(settings or {})))

    def pull(self, upto: Sequence[int] | None = None) -> Transaction:
        """Runs one transaction."""
        request = self.request(upto)
        self.taken = [len(one.steps) for one in self.inputs] if upto is None else list(upto)
        self.transactions.append(run(request, self.call))
        return self.transactions[-1]


def run(request: TransformRequest, call: EngineCall) -> Transaction:
    """Runs a request and reads what it wrote."""
    return written(request, execute_transform(request, call), call.exchange.root)


def written(request: TransformRequest, result: TransformResult, exchange: Path) -> Transaction:
    """What a request has left in the exchange folder."""
    data, checkpoint = exchange / request.new_data_path, exchange / request.new_checkpoint_path
    return Transaction(request, result, pq.read_table(data), data, checkpoint)


def _request_input(one: Input, taken: int, end: int) -> TransformRequestInput:
    begin_offset = _rows_before(one, taken)
    end_offset = _rows_before(one, end)
    return TransformRequestInput(
        dataset_id=one.id,
        query_alias=one.alias,
        vocabulary=DatasetVocabulary(),
        data_schema=one.data_schema,
        offsets=OffsetRange(begin_offset, end_offset),
        slices=tuple(s for s in one.slices if s.offsets.end > begin_offset and s.offsets.begin < end_offset),
        steps=tuple(one.steps[taken:end]),
    )


def _rows_before(one: Input, block: int) -> int:
    last = one.steps[block - 1].last_offset if block else None
    return 0 if last is None else last + 1


@contextmanager
def results_of_at_most(call: EngineCall, size: str) -> Iterator[None]:
    """Limit what Spark collects, as for results beyond `collected_bytes_max`."""
    conf = call.session.sparkContext._jsc.sc().conf()
    before = conf.get(_MAX_RESULT)
    conf.set(_MAX_RESULT, size)
    try:
        yield
    finally:
        conf.set(_MAX_RESULT, before)
