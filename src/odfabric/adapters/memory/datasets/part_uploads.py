"""Uploads in parts over any object store: a stand-in for tests and drills.

Parts are objects beside the keys of the store. `put` is what a client does with a URL; nobody else serves it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from urllib.parse import parse_qs, urlsplit

from odfabric.errors import Changed, InvalidRequest, NotFound
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.ports.datasets.object_store import ObjectStore, check_key, check_prefix
from odfabric.ports.datasets.part_uploads import OpenUpload, StoredPart
from odfabric.ports.node.clock import Clock, Entropy

_FOLDER = "parts-of-uploads/"
_PART_BYTES_MAX = 5 * 1024**3


class StoredPartUploads:
    """PartUploads whose parts are objects of `objects`."""

    def __init__(self, objects: ObjectStore, *, clock: Clock, entropy: Entropy) -> None:
        self._objects = objects
        self._clock = clock
        self._entropy = entropy

    def begin(self, key: str) -> str:
        """See the port."""
        check_key(key)
        upload = self._entropy.random_bytes(16).hex()
        self._objects.put_bytes(f"{_FOLDER}{upload}/key", f"{self._clock.now()} {key}".encode())
        return upload

    def link(self, key: str, upload: str, number: int, *, size: int, lifetime_s: int) -> str:
        """See the port."""
        check_key(key)
        until = self._clock.now().epoch_ns + lifetime_s * NANOS_PER_SECOND
        return f"memory://parts/{upload}?part={number}&size={size}&until={until}"

    def put(self, url: str, data: bytes) -> str:
        """Send a part as the holder of its URL; its entity tag.

        Raises InvalidRequest for what the URL does not allow.
        """
        place = urlsplit(url)
        upload = place.path.strip("/")
        given = {name: int(values[0]) for name, values in parse_qs(place.query).items()}
        self._about(upload)
        if len(data) != given["size"] or self._clock.now().epoch_ns > given["until"]:
            raise InvalidRequest("the URL does not allow this")
        part = f"{_FOLDER}{upload}/{given['part']:05}"
        self._objects.delete(part)
        self._objects.put_bytes(part, data)
        return hashlib.md5(data, usedforsecurity=False).hexdigest()

    def stored(self, key: str, upload: str) -> Sequence[StoredPart]:
        """See the port."""
        self._about(upload)
        found = []
        for part in list(self._objects.keys(f"{_FOLDER}{upload}/")):
            name = part.rpartition("/")[2]
            if name != "key":
                data = self._objects.read_bytes(part, size_max=_PART_BYTES_MAX)
                tag = hashlib.md5(data, usedforsecurity=False).hexdigest()
                found.append(StoredPart(int(name), len(data), tag))
        return found

    def complete(self, key: str, upload: str, parts: Sequence[StoredPart]) -> None:
        """See the port."""
        if {(part.number, part.tag) for part in parts} - {(part.number, part.tag) for part in self.stored(key, upload)}:
            raise Changed("the parts are not those that the store has")
        numbers = [part.number for part in parts]
        data = b"".join(
            self._objects.read_bytes(f"{_FOLDER}{upload}/{number:05}", size_max=_PART_BYTES_MAX) for number in numbers
        )
        self._objects.put_stream(key, io.BytesIO(data))
        self.abort(key, upload)

    def abort(self, key: str, upload: str) -> None:
        """See the port."""
        check_key(key)
        # The last one says that the upload is there.
        for part in sorted(self._objects.keys(f"{_FOLDER}{upload}/")):
            self._objects.delete(part)

    def unfinished(self, prefix: str) -> Iterator[OpenUpload]:
        """See the port."""
        check_prefix(prefix)
        for name in list(self._objects.keys(_FOLDER)):
            if name.endswith("/key"):
                upload = name.split("/")[1]
                begun, key = self._about(upload)
                if key.startswith(prefix):
                    yield OpenUpload(key, upload, begun)

    def _about(self, upload: str) -> tuple[Instant, str]:
        try:
            text = self._objects.read_bytes(f"{_FOLDER}{upload}/key", size_max=1024).decode()
        except NotFound:
            raise NotFound("upload", upload) from None
        begun, _, key = text.partition(" ")
        return Instant.parse(begun), key
