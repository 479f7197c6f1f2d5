"""Resumable uploads in chunks or parts: begun, filled, hashed, pushed.

Owns their objects below the staging prefix: what the upload is (`about`), one object a chunk named by its offset, and the job that took it
(`done`). Invariants: an upload is known to the account that began it, for the dataset for which it did; its offset is the end of the chunks
that follow each other without a gap, so a chunk that was stored is never sent again; nothing is pushed whose size or hash differs from what
was announced. Parts go from the client to the object store (`sent_parts`), where the node has one that clients reach. A file whose digest is said at the beginning is found again by the next request that sends it once more. Abandoned ones are collected as every staged object is (`staging.collect_staged`). Not here: HTTP; committing (`run_push`).
Source: draft-ietf-httpbis-resumable-upload.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from odfabric.domain.people.access import Subject, owner_of
from odfabric.errors import Changed, External, InvalidData, InvalidRequest, LimitExceeded, NotFound, OdfError, Place
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.datasets.part_uploads import PART_BYTES_MIN, PartUploads
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.digesting_stream import DigestingStream
from odfabric.usecases.ingestion.sent_parts import (
    PartsPlan,
    PartToSend,
    begin_parts,
    bytes_there,
    complete_parts,
    hashed_object,
    parts_to_send,
    read_plan,
)
from odfabric.usecases.ingestion.staging import STAGING_PREFIX, StagedBody, discard_staged
from odfabric.usecases.jobs.job_actor import account_of
from odfabric.usecases.rights.account_quotas import AccountQuotas

CHUNKS_MAX = 10_000
"""Chunks of one upload: each is an object, and all are listed to find the offset."""
UPLOAD_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
DIGEST = re.compile(r"(sha-256|sha3-256)=([0-9a-f]{64})", re.ASCII)
_ACCOUNT_DIGITS = 16
_ABOUT_BYTES_MAX = 4096
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumablePorts:
    """What these uploads work with.

    `part` keeps those of this node apart in objects that several share. `parts`, if there are any, takes parts of `part_bytes`; one answer
    has `links_max` URLs, each for `link_s` seconds.
    """

    objects: ObjectStore
    clock: Clock
    entropy: Entropy
    quotas: AccountQuotas
    lifetime_s: float
    bytes_max: int
    chunk_bytes_max: int
    per_account_max: int
    part: str = ""
    parts: PartUploads | None = None
    part_bytes: int = PART_BYTES_MIN
    links_max: int = 100
    link_s: int = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumableUpload:
    """An upload now: stored and announced bytes, expiry, and finally its job.

    `plan` is that of an upload in parts, None for one in chunks.
    """

    id: str
    offset: int
    size: int
    expires_at: Instant
    job_id: str | None = None
    plan: PartsPlan | None = None

    @property
    def complete(self) -> bool:
        """Whether every byte is there."""
        return self.offset == self.size or self.job_id is not None


Accept = Callable[[StagedBody], Job | CommitResult]
"""Makes a push of a staged body; see `push_data.accept_push`."""


def begin_upload(
    entry: CatalogEntry,
    size: int,
    *,
    subject: Subject,
    ports: ResumablePorts,
    digest: str | None = None,
    in_parts: bool = False,
) -> ResumableUpload:
    """Begin an upload of `size` bytes, or go on with that of the same `digest`.

    With a `digest`, it is the upload of this file that is not pushed yet, if there is one; else an empty one. `in_parts` asks for one whose
    parts go to the object store; a node without such a store begins one in chunks.

    Raises LimitExceeded, InvalidRequest for a size that no file has and a digest of another form.
    """
    if digest is not None and DIGEST.fullmatch(digest) is None:
        raise _no_digest()
    if size < 1:
        raise InvalidRequest("an upload has at least one byte", place=Place(field="size"))
    if size > ports.bytes_max:
        raise LimitExceeded("the file is too large", limit="upload_bytes_max", maximum=ports.bytes_max)
    ports.quotas.take_push(subject)
    ports.quotas.check_more_bytes(owner_of(entry.alias))
    prefix = _owner_prefix(subject, ports)
    open_now = sorted({key[len(prefix) :].partition("/")[0] for key in ports.objects.keys(prefix)})
    if digest is not None:
        for upload_id in open_now:
            if _about(upload_id, subject, ports).get("digest") != digest:
                continue
            with suppress(NotFound):
                found, _ = _found(entry, upload_id, subject, ports)
                is_alike = found.plan is None or (in_parts and ports.parts is not None)
                if found.size == size and found.job_id is None and is_alike:
                    return found
    if len(open_now) >= ports.per_account_max:
        raise LimitExceeded(
            f"{len(open_now)} uploads of this account are open: go on with one of them, or delete one",
            limit="uploads_per_account_max",
            maximum=ports.per_account_max,
        )
    upload_id, now = ports.entropy.random_bytes(16).hex(), ports.clock.now()
    about: dict[str, Any] = {"dataset": str(entry.id), "size": size, "begun": str(now), "digest": digest}
    plan = None
    if in_parts and ports.parts is not None:
        key = f"{STAGING_PREFIX}{ports.part}parts-{upload_id}"
        plan = begin_parts(key, size, part_bytes=ports.part_bytes, parts=ports.parts)
        about["parts"] = plan.value()
    ports.objects.put_bytes(_folder(upload_id, subject, ports) + "about", json.dumps(about).encode())
    return ResumableUpload(id=upload_id, offset=0, size=size, expires_at=_expiry(now, ports), plan=plan)


def find_upload(entry: CatalogEntry, upload_id: str, *, subject: Subject, ports: ResumablePorts) -> ResumableUpload:
    """An upload of this account to this dataset. Raises NotFound."""
    return _found(entry, upload_id, subject, ports)[0]


def append_chunk(
    entry: CatalogEntry,
    upload_id: str,
    chunks: Iterator[bytes],
    *,
    offset: int,
    subject: Subject,
    ports: ResumablePorts,
) -> ResumableUpload:
    """Store what `chunks` give, as far as they come; the upload as it is then.

    Raises NotFound, Changed for another offset than the upload has, LimitExceeded for a chunk that is too large and for too many,
    InvalidRequest for more bytes than were announced; nothing of such a chunk is kept.
    """
    upload, parts = _found(entry, upload_id, subject, ports)
    if upload.plan is not None:
        raise InvalidRequest("this upload goes to the object store", hint="GET .../parts says where to send its parts")
    if upload.job_id is not None or offset != upload.offset:
        raise Changed(f"the upload has {upload.offset} bytes", hint=f"go on at Upload-Offset: {upload.offset}")
    if parts >= CHUNKS_MAX:
        raise LimitExceeded("the upload has too many chunks", limit="upload_chunks_max", maximum=CHUNKS_MAX)
    first = next((chunk for chunk in chunks if chunk), None)
    if first is None:
        return upload
    bounded = _bounded(chain([first], chunks), upload.size - offset, ports.chunk_bytes_max)
    ports.objects.put_stream(f"{_folder(upload_id, subject, ports)}chunk-{offset:020}", DigestingStream(bounded))
    # Looked at again: of two chunks at the same offset the first one that was stored is there.
    return _found(entry, upload_id, subject, ports)[0]


def list_parts(
    entry: CatalogEntry, upload_id: str, *, first: int, subject: Subject, ports: ResumablePorts
) -> tuple[PartsPlan, Sequence[PartToSend]]:
    """Parts of an upload from number `first` on, as many as one answer has.

    Raises NotFound, InvalidRequest for an upload in chunks and one that was pushed.
    """
    upload, _ = _found(entry, upload_id, subject, ports)
    if upload.plan is None or ports.parts is None or upload.job_id is not None:
        raise InvalidRequest(
            "this upload has no parts to send",
            hint='send chunks by PATCH; `"parts": true` at the beginning asks for parts where the node has them',
        )
    found = parts_to_send(
        upload.plan, first=first, limit=ports.links_max, link_s=ports.link_s, parts=ports.parts, clock=ports.clock
    )
    return upload.plan, found


def finish_upload(
    entry: CatalogEntry,
    upload_id: str,
    *,
    digest: str,
    accept: Accept,
    subject: Subject,
    ports: ResumablePorts,
    tags: Mapping[int, str] | None = None,
) -> Job | CommitResult | str:
    """Push the upload if its hash is `digest`.

    The id of its job if it was pushed before. `tags` are the entity tags of all parts, by number, of an upload in parts.

    Raises NotFound, InvalidRequest for a digest of another form and an upload that lacks bytes, InvalidData for another hash (the
    upload is gone then), and what `accept` raises.
    """
    wanted = DIGEST.fullmatch(digest)
    if wanted is None:
        raise _no_digest()
    upload, _ = _found(entry, upload_id, subject, ports)
    if upload.job_id is not None:
        return upload.job_id
    if upload.plan is None and not upload.complete:
        raise InvalidRequest(
            f"{upload.size - upload.offset} bytes are missing",
            place=Place(field="size"),
            hint=f"go on at Upload-Offset: {upload.offset}",
        )
    folder = _folder(upload_id, subject, ports)
    if upload.plan is not None and ports.parts is not None:
        complete_parts(upload.plan, tags or {}, objects=ports.objects, parts=ports.parts)
        staged = hashed_object(upload.plan, wanted[1], wanted[2], objects=ports.objects)
    else:
        staged = _joined(folder, wanted[1], wanted[2], upload.size, ports)
    try:
        found = accept(staged)
    except OdfError as refused:
        # After a failure outside, the job may be there and name the object; the collector takes it if not.
        if upload.plan is None and not isinstance(refused, External):  # chunks are joined again, parts only once
            discard_staged(staged, objects=ports.objects)
        raise
    if isinstance(found, Job):
        ports.objects.put_bytes(folder + "done", json.dumps({"job": found.id}).encode())
        _delete(folder + "chunk-", ports)
    return found


def drop_upload(entry: CatalogEntry, upload_id: str, *, subject: Subject, ports: ResumablePorts) -> None:
    """Remove an upload at once; a job that took it goes on. Raises NotFound."""
    upload, _ = _found(entry, upload_id, subject, ports)
    if upload.plan is not None and ports.parts is not None and upload.job_id is None:
        ports.parts.abort(upload.plan.key, upload.plan.upload)
        ports.objects.delete(upload.plan.key)
    _delete(_folder(upload_id, subject, ports), ports)


def _no_digest() -> InvalidRequest:
    return InvalidRequest(
        "not a digest", place=Place(field="digest"), hint="sha-256= or sha3-256= and 64 hexadecimal digits"
    )


def _joined(folder: str, algorithm: str, digest: str, size: int, ports: ResumablePorts) -> StagedBody:
    """The chunks as one staged object.

    Raises InvalidData if it is not the announced one.
    """
    wanted = hashlib.new(algorithm.replace("sha-256", "sha256").replace("sha3-256", "sha3_256"))
    stream = DigestingStream(_read_chunks(folder, wanted, ports))
    key = STAGING_PREFIX + ports.part + ports.entropy.random_bytes(16).hex()
    staged = StagedBody(ports.objects.put_stream(key, stream), stream.digest.digest(), key=key)
    if staged.size == size and wanted.hexdigest() == digest:
        return staged
    discard_staged(staged, objects=ports.objects)
    _delete(folder, ports)
    raise InvalidData(
        f"the upload has {algorithm}={wanted.hexdigest()}, not the announced digest",
        place=Place(field="digest"),
        hint="bytes were lost or changed on the way, or the file has changed: upload it again",
    )


def _read_chunks(folder: str, digest: hashlib._Hash, ports: ResumablePorts) -> Iterator[bytes]:
    for key in list(ports.objects.keys(folder + "chunk-")):
        with ports.objects.open(key) as chunk:
            while piece := chunk.read(_PIECE_BYTES):
                digest.update(piece)
                yield piece


def _found(entry: CatalogEntry, upload_id: str, subject: Subject, ports: ResumablePorts) -> tuple[ResumableUpload, int]:
    """The upload and the number of its chunks."""
    gone = NotFound("upload", upload_id[:64], hint="it was deleted, or is too old: begin again")
    if UPLOAD_ID.fullmatch(upload_id) is None:
        raise gone
    folder, about = _folder(upload_id, subject, ports), _about(upload_id, subject, ports)
    if not about:
        raise gone
    begun = Instant.parse(about["begun"])
    if about["dataset"] != str(entry.id) or _expiry(begun, ports) <= ports.clock.now():
        raise gone
    plan = read_plan(about["parts"]) if "parts" in about else None
    upload = ResumableUpload(id=upload_id, offset=0, size=about["size"], expires_at=_expiry(begun, ports), plan=plan)
    if ports.objects.stat(folder + "done") is not None:
        done = json.loads(ports.objects.read_bytes(folder + "done", size_max=_ABOUT_BYTES_MAX))
        return replace(upload, offset=upload.size, job_id=done["job"]), 0
    if plan is not None and ports.parts is not None:
        return replace(upload, offset=bytes_there(plan, objects=ports.objects, parts=ports.parts)), 0
    offset = parts = 0
    for key in ports.objects.keys(folder + "chunk-"):
        stat = ports.objects.stat(key)
        if stat is None or int(key.rpartition("-")[2]) != offset:
            break
        offset, parts = offset + stat.size, parts + 1
    return replace(upload, offset=offset), parts


def _about(upload_id: str, subject: Subject, ports: ResumablePorts) -> dict[str, Any]:
    """What an upload is, empty if there is none."""
    try:
        about: dict[str, Any] = json.loads(
            ports.objects.read_bytes(_folder(upload_id, subject, ports) + "about", size_max=_ABOUT_BYTES_MAX)
        )
    except NotFound:
        return {}
    return about


def _bounded(chunks: Iterator[bytes], missing: int, chunk_bytes_max: int) -> Iterator[bytes]:
    taken = 0
    for chunk in chunks:
        taken += len(chunk)
        if taken > missing:
            raise InvalidRequest(
                "there are more bytes than were announced", place=Place(field="body"), hint="begin another upload"
            )
        if taken > chunk_bytes_max:
            raise LimitExceeded("the chunk is too large", limit="upload_chunk_bytes_max", maximum=chunk_bytes_max)
        yield chunk


def _expiry(begun: Instant, ports: ResumablePorts) -> Instant:
    return Instant(begun.epoch_ns + int(ports.lifetime_s * NANOS_PER_SECOND))


def _owner_prefix(subject: Subject, ports: ResumablePorts) -> str:
    owner = hashlib.sha3_256(account_of(subject).encode()).hexdigest()[:_ACCOUNT_DIGITS]
    return f"{STAGING_PREFIX}{ports.part}resumable-{owner}-"


def _folder(upload_id: str, subject: Subject, ports: ResumablePorts) -> str:
    return f"{_owner_prefix(subject, ports)}{upload_id}/"


def _delete(prefix: str, ports: ResumablePorts) -> None:
    for key in list(ports.objects.keys(prefix)):
        ports.objects.delete(key)
