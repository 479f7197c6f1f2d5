"""A dataset whose changelog a test writes by blocks, beside a summing oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from odfabric.adapters.memory.datasets.exchange import MemoryExchange
from odfabric.adapters.persist.index_tiers import IndexLimits
from odfabric.adapters.persist.state_index import PersistStateIndex
from odfabric.domain.chain.append import link_blocks
from odfabric.domain.ingestion.ingest_plan import plan_add_data
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.commit import Head
from odfabric.model.instant import Instant
from odfabric.model.metadata import SetInfo
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.testing.changelogs import C_TO, SLICE_COLUMNS, A, Change, write_changes
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.chain.commit import PlannedCommit
from odfabric.usecases.chain.store_slice import store_slice
from odfabric.usecases.state.read_state import ReadState
from odfabric.wiring.node import Node
from odfabric_persist.client import PersistClient
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from tests.usecases.manifests import ROOT

SNAPSHOT = (
    ROOT.replace("merge: {kind: Append}", "merge: {kind: Snapshot, primaryKey: [key]}")
    .replace("name: city, type: String", "name: key, type: {kind: Option, inner: String}")
    .replace("inner: Int64", "inner: Float64")
)
START = Instant.parse("2030-01-01T00:00:00Z")
SECOND = 1_000_000_000
ROWS_MAX = 1000


class Committed:
    """A dataset of which the changelog is written by the test, one block a second."""

    def __init__(self, folder: Path, manifest: str = SNAPSHOT) -> None:
        self.memory = MemoryNode(folder)
        self.entry = self.memory.add(manifest)
        self.heads: list[Head] = [self.memory.node.datasets.head(self.entry)]
        self.changes: list[tuple[int, Change]] = []
        self.times: list[Instant] = [self.memory.node.repository.current(self.entry.id)[1].system_time or START]
        client = PersistClient(MemoryBlob(), MemoryConsensus())
        scratch = MemoryExchange(folder / "scratch").session
        index = PersistStateIndex(lambda: client, self.memory.objects, scratch, IndexLimits(tail_slices_max=1))
        settings = self.memory.settings.model_copy(update={"index_history_blocks": 2})
        ports = replace(self.memory.node.ports, state_index=index)
        self.node = Node(ports, settings)
        self.plain = Node(ports, settings.model_copy(update={"index": "off"}))

    def commit(self, changes: Sequence[Change], *, event_times: Sequence[int] | None = None) -> None:
        """A block with these changes, or without data if there are none.

        Event times are in milliseconds.
        """
        node, dataset = self.memory.node, self.entry.id
        _, state = node.repository.current(dataset)
        schema = arrow_to_data_schema(SLICE_COLUMNS)
        data = None
        if changes:
            path = self.memory.folder / f"slice-{len(self.heads)}"
            write_changes(path, changes, state.next_offset, event_times=event_times)
            offsets = OffsetRange(state.next_offset, state.next_offset + len(changes))
            data = store_slice(dataset, path, offsets, objects=self.memory.objects)
        events = plan_add_data(state, data_schema=schema, new_data=data, max_event_time=None)
        events = events if changes else [*events, SetInfo(description=f"at {len(self.heads)}")]
        time = Instant(START.epoch_ns + len(self.heads) * SECOND)
        blocks = link_blocks(state, events, system_time=time)
        node.commits.commit(dataset, lambda _: PlannedCommit(tuple(blocks)))
        self.heads.append(node.datasets.head(self.entry))
        self.times.append(time)
        self.changes += [(self.heads[-1].sequence_number, change) for change in changes]

    def net(self, number: int) -> Counter[str]:
        """What the changes up to a block leave, counted one by one."""
        found: Counter[str] = Counter()
        for at, (operation, key, value) in self.changes:
            if at <= number:
                found[repr((key, value))] += 1 if operation in (A, C_TO) else -1
        return +found

    def read(self, node: Node, **asked: Any) -> dict[str, Any]:
        return node.rows.state(self.entry, ReadState(**{"limit": ROWS_MAX, **asked}))

    def rows(self, node: Node, block: Multihash) -> Counter[str]:
        return Counter(repr((row["key"], row["value"])) for row in self.read(node, as_at=block)["data"])
