"""A merge by index and later slices writes the same bytes as by all history."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.adapters.memory.datasets.exchange import MemoryExchange
from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.adapters.persist.index_tiers import IndexLimits
from odfabric.adapters.persist.state_index import PersistStateIndex
from odfabric.domain.chain.state_index import index_definition
from odfabric.domain.chain.walk import read_state
from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.state_rows import write_state_file
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataTypeFloat64,
    DataTypeInt32,
    DataTypeOption,
    DataTypeString,
)
from odfabric.model.engine import SliceFile
from odfabric.model.metadata import AddPushSource, SetDataSchema
from odfabric.model.offsets import OffsetRange
from odfabric.model.source import (
    MergeStrategy,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepNdJson,
)
from odfabric.model.state_index import IndexDefinition, IndexedSlice
from odfabric.testing.chains import ChainBuilder
from odfabric.testing.chains import physical_hash as hash_of_text
from odfabric.testing.conformance.examples import NOW
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_persist.client import PersistClient
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from tests.services.engine.ingest.ingesting import Dataset

pytestmark = pytest.mark.spark

SCHEMA = DataSchema(
    fields=(
        DataField(name="k", type=DataTypeOption(inner=DataTypeInt32())),
        DataField(name="t", type=DataTypeOption(inner=DataTypeString())),
        DataField(name="f", type=DataTypeOption(inner=DataTypeFloat64())),
    )
)
STEP = ReadStepNdJson(schema=SCHEMA)
ROW = st.fixed_dictionaries(
    {
        "k": st.integers(0, 5),
        "t": st.sampled_from([None, "", "a", "ż"]),
        "f": st.sampled_from([None, 0.0, -0.0, 1.5]),
    }
)
BATCH = st.lists(ROW, max_size=6, unique_by=lambda row: row["k"])


class Indexed:
    """An index over the slices of a dataset of the engine's tests."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._root = dataset.call.exchange.root
        self._objects = MemoryObjectStore(SettableClock(NOW))
        client = PersistClient(MemoryBlob(), MemoryConsensus())
        scratch = MemoryExchange(self._root / "reading").session
        limits = IndexLimits(tail_slices_max=1)
        self._index = PersistStateIndex(lambda: client, self._objects, scratch, limits)
        self._definition: IndexDefinition | None = None

    def history(self, count: int) -> tuple[SliceFile, ...]:
        """The state after the first `count` slices as a file, and the slices after them."""
        definition = self._definition or self._defined()
        slices = [self._stored(definition, number) for number in range(count)]
        frontier = self._index.extend(definition, slices)
        self._index.maintain(definition, since=frontier.upper - 1)
        tables = self._index.rows_at(definition, count - 1)
        columns = data_schema_to_arrow(definition.columns, encodings=False)
        rows = write_state_file(str(self._root / "indexed-state"), tables, columns, self._dataset.vocabulary)
        states = [SliceFile(path="indexed-state", offsets=OffsetRange(0, rows))] if rows else []
        return (*states, *self._dataset.history[count:])

    def _defined(self) -> IndexDefinition:
        assert self._dataset.data_schema is not None
        chain = ChainBuilder()
        chain.append(AddPushSource(source_name="default", read=STEP, merge=self._dataset.merge))
        chain.append(SetDataSchema(schema=self._dataset.data_schema))
        found = index_definition(read_state(chain, chain.head))
        assert isinstance(found, IndexDefinition)
        self._definition = found
        return found

    def _stored(self, definition: IndexDefinition, number: int) -> IndexedSlice:
        item = self._dataset.history[number]
        path = self._root / item.path
        name, _ = physical_hash(path)
        self._objects.put_file(data_key(definition.dataset, name), path)
        return IndexedSlice(
            sequence_number=number,
            block_hash=hash_of_text(f"block {number}"),
            physical_hash=name,
            offsets=item.offsets,
        )


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize(
    "merge",
    [
        MergeStrategySnapshot(primary_key=("k",)),
        MergeStrategyLedger(primary_key=("k",)),
        MergeStrategyUpsertStream(primary_key=("k",)),
    ],
    ids=["snapshot", "ledger", "upserts"],
)
@given(batches=st.lists(BATCH.filter(bool), min_size=3, max_size=4), behind=st.integers(0, 1))
def test_the_slice_is_the_same_to_the_byte(
    engine_call: EngineCall,
    tmp_path_factory: pytest.TempPathFactory,
    merge: MergeStrategy,
    batches: list[list[dict[str, Any]]],
    behind: int,
) -> None:
    folder = tmp_path_factory.mktemp("indexed")
    (folder / "scratch").mkdir()
    call = replace(engine_call, exchange=type(engine_call.exchange).at(folder), scratch=folder / "scratch")
    dataset = Dataset(call, merge=merge)
    indexed = Indexed(dataset)
    for number, batch in enumerate(batches):
        request = dataset.request(STEP, b"".join(json.dumps(row).encode() + b"\n" for row in batch))
        count = len(dataset.history) - behind
        shortcut = None
        if count > 0:
            other = Dataset(call, merge=merge, data_schema=dataset.data_schema, rounds=100 + number)
            path = f"from-index-{number}"
            shortcut = other.commit(replace(request, history=indexed.history(count), new_data_path=path))
        full = dataset.commit(request)
        if shortcut is not None:
            assert shortcut.num_rows == full.num_rows
        if shortcut is not None and full.num_rows:
            assert (folder / path).read_bytes() == (folder / request.new_data_path).read_bytes()
