"""Uploads in chunks, bound to a node's ports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from odfabric.domain.people.access import Subject
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.ingestion.resumable_uploads import (
    ResumablePorts,
    ResumableUpload,
    append_chunk,
    begin_upload,
    drop_upload,
    find_upload,
    finish_upload,
)
from odfabric.wiring.node import Node


@dataclass(frozen=True, slots=True)
class ResumableVerbs:
    """What somebody with a large file asks of a node.

    Who may push to the dataset is checked by the caller.
    """

    node: Node

    @property
    def _ports(self) -> ResumablePorts:
        node = self.node
        return ResumablePorts(
            objects=node.ports.objects,
            clock=node.ports.clock,
            entropy=node.ports.entropy,
            quotas=node.quotas,
            lifetime_s=node.settings.staged_lifetime_s,
            bytes_max=node.settings.upload_bytes_max,
            chunk_bytes_max=node.settings.upload_chunk_bytes_max,
            per_account_max=node.settings.uploads_per_account_max,
            part=node.ports.own_part,
        )

    def begin(self, entry: CatalogEntry, size: int, *, by: Subject, digest: str | None = None) -> ResumableUpload:
        """See `begin_upload`."""
        return begin_upload(entry, size, subject=by, ports=self._ports, digest=digest)

    def find(self, entry: CatalogEntry, upload_id: str, *, by: Subject) -> ResumableUpload:
        """See `find_upload`."""
        return find_upload(entry, upload_id, subject=by, ports=self._ports)

    def append(
        self, entry: CatalogEntry, upload_id: str, chunks: Iterator[bytes], *, offset: int, by: Subject
    ) -> ResumableUpload:
        """See `append_chunk`."""
        return append_chunk(entry, upload_id, chunks, offset=offset, subject=by, ports=self._ports)

    def finish(
        self, push: PushData, entry: CatalogEntry, upload_id: str, digest: str, *, by: Subject
    ) -> Job | CommitResult:
        """Push what was uploaded as `push` says, whose body it becomes.

        Raises as `finish_upload`.
        """
        node = self.node
        found = finish_upload(
            entry,
            upload_id,
            digest=digest,
            accept=lambda staged: node.requests.push(replace(push, body=staged), by=by),
            subject=by,
            ports=self._ports,
        )
        return node.jobs.get(found, by=by) if isinstance(found, str) else found

    def drop(self, entry: CatalogEntry, upload_id: str, *, by: Subject) -> None:
        """See `drop_upload`."""
        drop_upload(entry, upload_id, subject=by, ports=self._ports)
