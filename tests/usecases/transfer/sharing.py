"""Two nodes and a shelf between them: what the tests of transfers begin with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.formats.identifiers.dataset_layout import dataset_prefix
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest, SendWish
from odfabric.model.rewrite import RewriteKind
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from tests.usecases.manifests import ROOT

SHELF = "file:///shelf/"
PLACE = f"{SHELF}local/readings/"
BYTES_MAX = 1 << 24


class Parties:
    """`ours` has a dataset and pushes it to a shelf; `theirs` pulls it from there."""

    def __init__(self, folder: Path, *, seed: int = 1) -> None:
        self.ours = MemoryNode(folder / "ours", seed=seed)
        self.theirs = MemoryNode(folder / "theirs", seed=seed + 1)
        self.shelf: ObjectStore = MemoryObjectStore(self.ours.clock)
        for node in (self.ours, self.theirs):
            node.remote_stores.share(PLACE, self.shelf)
            node.node.sharing.repositories.add("shelf", SHELF, shared=False, by=node.node.operator)
        self.entry = self.ours.add(ROOT)

    def ingest(self, day: int, *, at: MemoryNode | None = None) -> None:
        """One more row."""
        node = at or self.ours
        body = json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": "A"}).encode()
        entry = node.node.datasets.resolve(self.entry.id)
        job = node.node.requests.push(PushData(dataset=entry.id, body=iter([body])))
        assert isinstance(job, Job)
        assert node.finish(job).status is JobStatus.SUCCEEDED

    def push(self, to: str | None = "shelf", *, force: bool = False) -> dict[str, Any]:
        """Push to the shelf; the result, or the problem with its `code`."""
        node = self.ours.node
        return ended(self.ours, node.sharing.push(self.entry, SendWish(to=to, force=force), by=node.operator))

    def pull(self, source: str = "shelf/local/readings", *, force: bool = False, name: str = "copy") -> dict[str, Any]:
        """Pull from the shelf; the result, or the problem with its `code`."""
        node = self.theirs.node
        url = node.sharing.names.source_url(source, node.operator)
        alias = DatasetAlias(Name("local"), Name(name))
        return ended(self.theirs, node.requests.pull(PullRequest(dataset=None, alias=alias, url=url, force=force)))

    @property
    def copy(self) -> CatalogEntry:
        """The dataset as `theirs` has it."""
        return self.theirs.node.datasets.resolve(self.entry.id)

    def check_same(self) -> None:
        """Both sides have the same head and the same bytes of all objects."""
        assert self.theirs.node.datasets.head(self.copy) == self.ours.node.datasets.head(self.entry)
        for area in ("blocks/", "data/", "checkpoints/"):
            keys = list(self.ours.objects.keys(dataset_prefix(self.entry.id) + area))
            for key in keys:
                path = key.removeprefix(dataset_prefix(self.entry.id))
                bytes_here = self.ours.objects.read_bytes(key, size_max=BYTES_MAX)
                assert self.theirs.objects.read_bytes(key, size_max=BYTES_MAX) == bytes_here
                assert self.shelf.read_bytes(path, size_max=BYTES_MAX) == bytes_here

    def rewrite(self, number: int, *, at: MemoryNode | None = None) -> None:
        """Take the dataset's head back to a block by its number."""
        node = at or self.ours
        entry = node.node.datasets.resolve(self.entry.id)
        row = next(row for row in node.node.repository.rows_down(entry.id) if row.sequence_number == number)
        node.node.commits.replace(
            entry, [], onto=row.hash, if_match=node.node.datasets.head(entry).hash, kind=RewriteKind.RESET
        )


def ended(node: MemoryNode, job: Job) -> dict[str, Any]:
    """The result of a job, or its problem."""
    done = node.finish(job)
    value: dict[str, Any] = json.loads((done.result if done.status is JobStatus.SUCCEEDED else done.error) or "{}")
    return value
