"""Validations of transforms in tests: two inputs of one schema, `a` and `b`."""

from __future__ import annotations

import pyarrow as pa

from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.engine import QueryInput, ValidateRequest, ValidateResult
from odfabric.model.metadata import SqlQueryStep, TemporalTable, TransformSql
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.compile.compile_query import validate_query
from odfabric_engine_spark.execute.validate_query import judge_query
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.transforming import MILLIS, input_schema

SCHEMA = input_schema(
    pa.field("k", pa.string()),
    pa.field("v", pa.int32()),
    pa.field("d", pa.float64()),
    pa.field("t", MILLIS),
    pa.field("l", pa.list_(pa.int32())),
)
VOCABULARY = DatasetVocabulary()


def validate(
    call: EngineCall,
    *queries: str,
    inputs: tuple[str, ...] = ("a", "b"),
    schema: pa.Schema | None = SCHEMA,
    vocabulary: DatasetVocabulary = VOCABULARY,
) -> ValidateResult:
    *early, last = queries
    steps = (*(SqlQueryStep(alias=f"s{n}", query=sql) for n, sql in enumerate(early)), SqlQueryStep(query=last))
    data_schema = None if schema is None else arrow_to_data_schema(schema)
    tables = tuple(QueryInput(alias=alias, vocabulary=VOCABULARY, data_schema=data_schema) for alias in inputs)
    transform = TransformSql(engine="spark", queries=steps)
    return validate_query(ValidateRequest(vocabulary=vocabulary, transform=transform, inputs=tables), call)


DDL = "k STRING, v INT, price DECIMAL(18, 2), t TIMESTAMP"


def judged(
    call: EngineCall,
    *queries: str,
    engine: str = "spark",
    ddl: str = DDL,
    vocabulary: DatasetVocabulary | None = None,
    temporal: tuple[TemporalTable, ...] | None = None,
) -> ValidateResult:
    """As the operation answers: inputs by DDL, with suggestions."""
    *early, last = queries
    steps = (*(SqlQueryStep(alias=f"s{n}", query=sql) for n, sql in enumerate(early)), SqlQueryStep(query=last))
    names = vocabulary or DatasetVocabulary()
    inputs = tuple(
        QueryInput(alias=alias, vocabulary=names, data_schema=None, ddl=ddl) for alias in ("a", "b", "my.trades")
    )
    transform = TransformSql(engine=engine, queries=steps, temporal_tables=temporal)
    return judge_query(ValidateRequest(vocabulary=DatasetVocabulary(), transform=transform, inputs=inputs), call)
