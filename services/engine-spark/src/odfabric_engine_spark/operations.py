"""The engine's operations in one place.

Owns which function answers which call. An operation is a function of a request and an `EngineCall`; it knows nothing of
gRPC, threads or deadlines.
"""

from __future__ import annotations

from odfabric_engine_spark.evolution.migrate import migrate_query
from odfabric_engine_spark.incremental.execute import execute_transform
from odfabric_engine_spark.ingest import ingest
from odfabric_engine_spark.query.run import run_query
from odfabric_engine_spark.validation import judge_query

__all__ = ["execute_transform", "ingest", "judge_query", "migrate_query", "run_query"]
