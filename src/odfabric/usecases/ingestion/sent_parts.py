"""Uploads whose parts clients send to the object store themselves.

Owns the plan of such an upload - which bytes each part has - and its way to one staged object. Invariant: a part's URL allows its number and
size and nothing else, and only the node makes an object of the parts; that object is hashed before anybody pushes it. Not here: who may, what
else an upload is (`resumable_uploads`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from odfabric.errors import Changed, InvalidData, InvalidRequest, NotFound, Place
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.datasets.part_uploads import PARTS_MAX, PartUploads, StoredPart
from odfabric.ports.node.clock import Clock
from odfabric.usecases.ingestion.digesting_stream import DigestingStream
from odfabric.usecases.ingestion.staging import StagedBody

_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PartsPlan:
    """An upload of `size` bytes to the object at `key`, in parts of `part_bytes`."""

    key: str
    upload: str
    size: int
    part_bytes: int

    @property
    def count(self) -> int:
        """How many parts there are."""
        return -(-self.size // self.part_bytes)

    def bytes_of(self, number: int) -> int:
        """Bytes of part `number`, from 1."""
        return min(self.part_bytes, self.size - (number - 1) * self.part_bytes)

    def value(self) -> dict[str, Any]:
        """As JSON; `read_plan` reads it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartToSend:
    """A part of an upload: its place in the file, and its URL or its tag.

    `url` is None for a part that is there, `tag` for one that is not.
    """

    number: int
    offset: int
    size: int
    tag: str | None = None
    url: str | None = None
    url_expires_at: Instant | None = None


def read_plan(value: Mapping[str, Any]) -> PartsPlan:
    """What `PartsPlan.value` gave."""
    return PartsPlan(**value)


def begin_parts(key: str, size: int, *, part_bytes: int, parts: PartUploads) -> PartsPlan:
    """Begin an upload.

    Its parts are larger than `part_bytes` where there would be too many.
    """
    return PartsPlan(key, parts.begin(key), size, max(part_bytes, -(-size // PARTS_MAX)))


def bytes_there(plan: PartsPlan, *, objects: ObjectStore, parts: PartUploads) -> int:
    """Bytes of the parts that are there without a gap from the beginning."""
    try:
        there = _there(plan, parts)
    except NotFound:
        return 0 if objects.stat(plan.key) is None else plan.size
    offset = 0
    for number in range(1, plan.count + 1):
        if number not in there:
            break
        offset += plan.bytes_of(number)
    return offset


def parts_to_send(
    plan: PartsPlan, *, first: int, limit: int, link_s: int, parts: PartUploads, clock: Clock
) -> Sequence[PartToSend]:
    """Parts from number `first` on, with URLs for missing ones. Raises NotFound."""
    there = _there(plan, parts)
    expires_at = Instant(clock.now().epoch_ns + link_s * NANOS_PER_SECOND)
    found = []
    for number in range(first, min(first + limit, plan.count + 1)):
        offset, size = (number - 1) * plan.part_bytes, plan.bytes_of(number)
        if number in there:
            found.append(PartToSend(number=number, offset=offset, size=size, tag=there[number]))
            continue
        url = parts.link(plan.key, plan.upload, number, size=size, lifetime_s=link_s)
        found.append(PartToSend(number=number, offset=offset, size=size, url=url, url_expires_at=expires_at))
    return found


def complete_parts(plan: PartsPlan, tags: Mapping[int, str], *, objects: ObjectStore, parts: PartUploads) -> None:
    """Make one object of the parts, unless an earlier request has.

    Raises InvalidRequest naming the first part that is missing or another, NotFound if the upload is gone.
    """
    if objects.stat(plan.key) is not None:
        return
    stored = {(part.number, part.tag): part for part in parts.stored(plan.key, plan.upload)}
    chosen: list[StoredPart] = []
    for number in range(1, plan.count + 1):
        part = stored.get((number, tags.get(number, "")))
        if part is None or part.size != plan.bytes_of(number):
            raise InvalidRequest(
                f"part {number} of {plan.count} is missing, or another one than the list says",
                place=Place(field="parts"),
                hint="GET .../parts says which parts are there, and where to send the others",
            )
        chosen.append(part)
    try:
        parts.complete(plan.key, plan.upload, chosen)
    except Changed:
        raise InvalidRequest("a part was sent again meanwhile", place=Place(field="parts")) from None


def hashed_object(plan: PartsPlan, algorithm: str, digest: str, *, objects: ObjectStore) -> StagedBody:
    """The completed object as a staged body, read once from end to end.

    Raises InvalidData if it is not the announced file, and removes it then.
    """
    wanted = hashlib.new(algorithm.replace("sha-256", "sha256").replace("sha3-256", "sha3_256"))
    stream = DigestingStream(_pieces(plan.key, objects, wanted))
    size = 0
    while piece := stream.read(_PIECE_BYTES):
        size += len(piece)
    if size == plan.size and wanted.hexdigest() == digest:
        return StagedBody(size, stream.digest.digest(), key=plan.key)
    objects.delete(plan.key)
    raise InvalidData(
        f"the upload has {algorithm}={wanted.hexdigest()}, not the announced digest",
        place=Place(field="digest"),
        hint="bytes were lost or changed on the way, or the file has changed: upload it again",
    )


def abort_abandoned(*, parts: PartUploads, clock: Clock, prefix: str, lifetime_s: float) -> int:
    """Abort uploads below `prefix` that are older than `lifetime_s`; how many."""
    oldest_kept = Instant(clock.now().epoch_ns - int(lifetime_s * NANOS_PER_SECOND))
    removed = 0
    for each in list(parts.unfinished(prefix)):
        if each.begun_at < oldest_kept:
            parts.abort(each.key, each.upload)
            removed += 1
    return removed


def _there(plan: PartsPlan, parts: PartUploads) -> dict[int, str]:
    """Tags of the parts that are there, but for those sent with different contents."""
    there: dict[int, set[str]] = {}
    for part in parts.stored(plan.key, plan.upload):
        if part.number <= plan.count and part.size == plan.bytes_of(part.number):
            there.setdefault(part.number, set()).add(part.tag)
    return {number: next(iter(tags)) for number, tags in there.items() if len(tags) == 1}


def _pieces(key: str, objects: ObjectStore, digest: hashlib._Hash) -> Iterator[bytes]:
    with objects.open(key) as stream:
        while piece := stream.read(_PIECE_BYTES):
            digest.update(piece)
            yield piece
