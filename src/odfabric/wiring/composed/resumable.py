"""Uploads in chunks, bound to a node's ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    list_parts,
)
from odfabric.usecases.ingestion.sent_parts import PartsPlan, PartToSend
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
            parts=node.ports.part_uploads,
            part_bytes=node.settings.upload_part_bytes,
            links_max=node.settings.upload_part_links_max,
            link_s=node.settings.upload_part_link_s,
        )

    def begin(
        self, entry: CatalogEntry, size: int, *, by: Subject, digest: str | None = None, in_parts: bool = False
    ) -> ResumableUpload:
        """See `begin_upload`."""
        return begin_upload(entry, size, subject=by, ports=self._ports, digest=digest, in_parts=in_parts)

    def parts(
        self, entry: CatalogEntry, upload_id: str, *, first: int, by: Subject
    ) -> tuple[PartsPlan, Sequence[PartToSend]]:
        """See `list_parts`."""
        return list_parts(entry, upload_id, first=first, subject=by, ports=self._ports)

    def find(self, entry: CatalogEntry, upload_id: str, *, by: Subject) -> ResumableUpload:
        """See `find_upload`."""
        return find_upload(entry, upload_id, subject=by, ports=self._ports)

    def append(
        self, entry: CatalogEntry, upload_id: str, chunks: Iterator[bytes], *, offset: int, by: Subject
    ) -> ResumableUpload:
        """See `append_chunk`."""
        return append_chunk(entry, upload_id, chunks, offset=offset, subject=by, ports=self._ports)

    def finish(
        self,
        push: PushData,
        entry: CatalogEntry,
        upload_id: str,
        digest: str,
        *,
        by: Subject,
        tags: Mapping[int, str] | None = None,
    ) -> Job | CommitResult:
        """Push what was uploaded as `push` says, whose body it becomes.

        One upload is one push, also where an answer got lost: its id is the idempotency key if `push` has none. Raises as `finish_upload`.
        """
        node = self.node
        push = replace(push, idempotency_key=push.idempotency_key or f"upload/{upload_id}")
        found = finish_upload(
            entry,
            upload_id,
            digest=digest,
            accept=lambda staged: node.requests.push(replace(push, body=staged), by=by),
            subject=by,
            ports=self._ports,
            tags=tags,
        )
        return node.jobs.get(found, by=by) if isinstance(found, str) else found

    def drop(self, entry: CatalogEntry, upload_id: str, *, by: Subject) -> None:
        """See `drop_upload`."""
        drop_upload(entry, upload_id, subject=by, ports=self._ports)
