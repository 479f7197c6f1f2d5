"""The engine's operations in one place.

Owns which function answers which call. An operation is a function of a request and an `EngineCall`; it knows nothing of
gRPC, threads or deadlines.
"""

from __future__ import annotations

from odfabric_engine_spark.execute.evolution.migrate_query import migrate_query
from odfabric_engine_spark.execute.execute_transform import execute_transform
from odfabric_engine_spark.ingest.ingest_files import ingest
from odfabric_engine_spark.ingest.raw_query import run_query
from odfabric_engine_spark.provenance.derive import derive_provenance
from odfabric_engine_spark.provenance.static_lineage import judge_with_lineage

__all__ = ["derive_provenance", "execute_transform", "ingest", "judge_with_lineage", "migrate_query", "run_query"]
