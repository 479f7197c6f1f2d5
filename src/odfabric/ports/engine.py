"""The engine: the only place that touches rows.

A transaction is a pure function of its request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from odfabric.model.engine import (
    EngineInfo,
    EngineProgress,
    IngestRequest,
    IngestResult,
    MigrateRequest,
    QueryRequest,
    QueryResult,
    TransformRequest,
    TransformResult,
    ValidateRequest,
    ValidateResult,
)
from odfabric.model.provenance import ProvenanceRequest, ProvenanceResult

ProgressListener = Callable[[EngineProgress], None]


class Engine(Protocol):
    """Operations of an ODF engine on files in the exchange folder.

    Every method raises InvalidData, InvalidQuery, IncompatibleSchema or LimitExceeded for what users did, Determinate if the
    engine is away or died (results are pure: the same request may be repeated). Output files of a failed call are garbage.
    """

    def info(self) -> EngineInfo:
        """Name, version and digest."""

    def ingest(self, request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        """Read, preprocess, merge, write one slice."""

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        """One incremental transaction: next slice, next checkpoint, watermark."""

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        """Judge a transform without data."""

    def migrate_query(self, request: MigrateRequest, *, progress: ProgressListener) -> TransformResult:
        """The transaction after a transform's change: output differences and next state.

        The differences are what the output must lose and gain.
        """

    def query(self, request: QueryRequest, *, progress: ProgressListener) -> QueryResult:
        """Run a read-only query."""

    def derive_provenance(self, request: ProvenanceRequest, *, progress: ProgressListener) -> ProvenanceResult:
        """Why records of one block are there: witnesses, trigger, cells, how.

        Rows of the answer are in its file. A record that the query does not give is answered as not found, never guessed.
        """
