"""Declared columns are held to slice types, unless a query makes others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric.domain.sources.source_evolution import check_sources
from odfabric.errors import IncompatibleSchema
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import AddPushSource, DatasetKind, SqlQueryStep, TransformSql
from odfabric.model.source import MergeStrategyAppend, ReadStepNdJson
from odfabric.model.vocabulary import DatasetVocabulary

QUERY = TransformSql(engine="spark", queries=(SqlQueryStep(query="SELECT 1 AS x FROM input"),))


def check(kind: pa.DataType, preprocess: TransformSql | None) -> None:
    source = AddPushSource(
        source_name="default",
        read=ReadStepNdJson(schema=arrow_to_data_schema(pa.schema([("v", kind)]))),
        preprocess=preprocess,
        merge=MergeStrategyAppend(),
    )
    snapshot = DatasetSnapshot(name=DatasetAlias(None, Name("orders")), kind=DatasetKind.ROOT, metadata=(source,))
    check_sources(snapshot, DatasetVocabulary(), name_bytes_max=100)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.struct([("sku", pa.string())])),
        pa.struct([("before", pa.struct([("id", pa.int64())]))]),
        pa.map_(pa.string(), pa.int64()),
    ],
    ids=str,
)
def test_a_query_frees_what_is_read(kind: pa.DataType) -> None:
    check(kind, QUERY)
    with pytest.raises(IncompatibleSchema) as refused:
        check(kind, None)
    assert "preprocess query" in (refused.value.hint or "")


@pytest.mark.parametrize("preprocess", [QUERY, None])
def test_what_nothing_reads_is_refused_in_any_case(preprocess: TransformSql | None) -> None:
    with pytest.raises(IncompatibleSchema, match=r"Column `v\[\]` is a Duration"):
        check(pa.list_(pa.duration("s")), preprocess)
