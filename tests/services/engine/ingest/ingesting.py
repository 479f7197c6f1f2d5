"""Ingesting in tests: one dataset whose slices lie in the folder of a call."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import IngestRequest, IngestResult, SliceFile
from odfabric.model.instant import Instant
from odfabric.model.metadata import TransformSql
from odfabric.model.source import MergeStrategy, MergeStrategyAppend, ReadStep
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.ingest.ingest_files import ingest
from odfabric_engine_spark.spark.calls.call import EngineCall

SYSTEM_TIME = Instant.parse("2050-01-01T12:00:00Z")
SOURCE_TIME = Instant.parse("2049-12-31T00:00:00Z")


@dataclass
class Dataset:
    """A root dataset as the engine sees it: schema, slices, next offset, watermark."""

    call: EngineCall
    vocabulary: DatasetVocabulary = field(default_factory=DatasetVocabulary)
    merge: MergeStrategy = field(default_factory=MergeStrategyAppend)
    data_schema: DataSchema | None = None
    history: tuple[SliceFile, ...] = ()
    watermark: Instant | None = None
    rounds: int = 0

    def request(
        self,
        read: ReadStep,
        *contents: bytes,
        preprocess: TransformSql | None = None,
        system_time: Instant = SYSTEM_TIME,
        source_time: Instant = SOURCE_TIME,
    ) -> IngestRequest:
        """The request for files of these contents."""
        self.rounds += 1
        root = self.call.exchange.root
        names = []
        for number, content in enumerate(contents):
            names.append(f"in-{self.rounds}-{number}")
            (root / names[-1]).write_bytes(content)
        return IngestRequest(
            vocabulary=self.vocabulary,
            data_paths=tuple(names),
            file_names=tuple(f"file{number}" for number in range(len(contents))),
            read=read,
            preprocess=preprocess,
            merge=self.merge,
            data_schema=self.data_schema,
            history=self.history,
            system_time=system_time,
            event_time_fallback=source_time,
            next_offset=self.history[-1].offsets.end if self.history else 0,
            new_data_path=f"slice-{self.rounds}",
        )

    def ingest(self, read: ReadStep, *contents: bytes, **options: Any) -> list[dict[str, Any]]:
        """Ingests files and commits the result; the new rows."""
        return self.commit(self.request(read, *contents, **options)).to_pylist()

    def commit(self, request: IngestRequest) -> pa.Table:
        """Runs a request and keeps what came out.

        The slice, without rows if there is none.
        """
        # A second ingest by the same call would find the scratch files of the first.
        scratch = self.call.scratch / f"round-{self.rounds}"
        scratch.mkdir()
        result: IngestResult = ingest(request, replace(self.call, scratch=scratch))
        if result.data_schema is not None and self.data_schema is None:
            self.data_schema = result.data_schema
        if result.max_event_time is not None:
            self.watermark = max(self.watermark or result.max_event_time, result.max_event_time)
        if result.offsets is None:
            return pa.table({})
        self.history += (SliceFile(path=request.new_data_path, offsets=result.offsets),)
        table = pq.read_table(self.call.exchange.root / request.new_data_path)
        assert table.num_rows == len(result.offsets)
        return table
