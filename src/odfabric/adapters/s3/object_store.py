"""Objects and refs in a bucket.

Owns the mapping of keys below a prefix, and the write that never replaces: `If-None-Match: *`, also when a large object is completed
from parts. Invariant: an object is there whole or not at all, and the first one written under a key stays; refs alone are
replaced. S3 has no locks: `exclusive` comes from anyone who has them, the database or a folder. Not here: what the keys mean.
"""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from botocore.exceptions import ClientError

from odfabric.adapters.s3.client import S3Access, failing, is_absent, is_taken, member, status_of
from odfabric.adapters.s3.listing import keys_in_order, page_of
from odfabric.adapters.s3.object_stream import ObjectStream
from odfabric.adapters.s3.part_uploads import S3PartUploads
from odfabric.adapters.s3.parts import PartSizes, read_piece
from odfabric.errors import (
    AlreadyExists,
    Determinate,
    External,
    InvalidData,
    InvalidName,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    Place,
)
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.node.remembered import Remembered
from odfabric.ports.datasets.object_store import (
    REF_BYTES_MAX,
    ObjectStat,
    ReadableBytes,
    check_key,
    check_prefix,
    ref_bytes,
    ref_text,
)

Exclusive = Callable[[str], AbstractContextManager[None]]

PENDING = ".pending-"
PROBE = "probe-"
"""Begins the name of an object that is written and deleted again when a node is made or started."""
PAGE_NAMES_MIN = 100
"""As how many names a shorter page of a listing counts, so that short pages end too."""
TAGS_KNOWN_MAX = 10_000
"""Refs of which a process remembers the entity tag that it wrote."""
_COPY_BYTES = 1024 * 1024
_NO_SUCH_RANGE = 416


class S3ObjectStore:
    """An ObjectStore in `bucket` below `prefix` (empty, or ending with a slash)."""

    def __init__(
        self,
        access: S3Access,
        bucket: str,
        *,
        prefix: str = "",
        exclusive: Exclusive,
        part_sizes: PartSizes | None = None,
        public: S3Access | None = None,
        names_max: int | None = None,
    ) -> None:
        """`exclusive` holds locks by name for all who use this bucket.

        `public` is how others reach it, for links.

        A server of one's own may be out of their reach, so without `public` there are links to that of AWS only.

        `names_max` is how many names of a folder are read from a server that is not trusted.
        """
        self._names_max = names_max
        self._client = access.client()
        self._links = public.client() if public else (None if access.endpoint_url else self._client)
        self._bucket = bucket
        self._prefix = prefix
        self._exclusive = exclusive
        self._part_sizes = part_sizes or PartSizes()
        self._tags = Remembered[str, tuple[str, str]](TAGS_KNOWN_MAX)

    def check(self, *, create: bool = False) -> None:
        """Raises Determinate, saying what to do, if the bucket cannot be used.

        `create` makes one that is missing.

        Raises InvalidRequest for a store that ignores the conditions of writes: two writers could win there.
        """
        if create:
            known = self._client.exceptions
            with (
                failing(self._bucket, changes=False),
                suppress(known.BucketAlreadyOwnedByYou, known.BucketAlreadyExists),
            ):
                self._client.create_bucket(Bucket=self._bucket)
        with failing(self._bucket, changes=False):
            next(iter(self._pages(self._prefix)), None)
        self._check_conditions(f"{PROBE}{secrets.token_hex(16)}")

    def _check_conditions(self, key: str) -> None:
        try:
            written = [
                self._replaced(key, "first", None),
                self._replaced(key, "second", None),
                self._replaced(key, "third", f'"{"0" * 32}"'),
            ]
            known = self._tags.get(key)
            written.append(known is not None and self._replaced(key, "fourth", known[1]))
            found = self.read_ref(key)
        finally:
            self._tags.pop(key)
            self.delete(key)
        if (written, found) != ([True, False, False, True], "fourth"):
            raise InvalidRequest(
                "the object store ignores the conditions of writes (If-None-Match, If-Match)",
                place=Place(field="ODF_OBJECTS_URL"),
                hint="use AWS S3, SeaweedFS, MinIO, R2 or another one that honours them",
            )

    def close(self) -> None:
        """Close idle connections."""
        self._client.close()

    def put_bytes(self, key: str, data: bytes) -> None:
        """See the port."""
        self._put_whole(key, data)

    def put_file(self, key: str, path: Path) -> None:
        """See the port. Raises InvalidData for anything but a regular file."""
        check_key(key)
        try:
            if path.is_symlink() or (path.exists() and not path.is_file()):
                raise InvalidData(f"{path.name} is not a file")
            with path.open("rb") as file:
                self._put(key, file, PartSizes.of(os.fstat(file.fileno()).st_size))
        except OSError as error:
            raise Determinate(f"object {key}: {error.strerror}") from error

    def put_stream(self, key: str, stream: ReadableBytes) -> int:
        """See the port. What `stream` raises passes through."""
        check_key(key)
        return self._put(key, stream, self._part_sizes)

    def read_bytes(self, key: str, *, size_max: int) -> bytes:
        """See the port."""
        with ObjectStream(key, self._read_from(key)) as stream:
            if stream.size > size_max:
                raise LimitExceeded(f"object {key} is larger than {size_max} bytes", limit="size_max", maximum=size_max)
            return stream.readall()

    def read_end(self, key: str, *, bytes_max: int) -> bytes:
        """See the port: one request."""
        check_key(key)
        with failing(key, changes=False):
            try:
                found = self._client.get_object(
                    Bucket=self._bucket, Key=self._prefix + key, Range=f"bytes=-{bytes_max}"
                )
            except ClientError as error:
                if status_of(error) == _NO_SUCH_RANGE:  # it is empty
                    return b""
                if is_absent(error):
                    raise NotFound("object", key) from error
                raise
            with closing(found["Body"]) as body:
                return bytes(body.read())[-bytes_max:]

    def open(self, key: str) -> BinaryIO:
        """See the port.

        The stream is of one version of the object, can be sought, and goes on after a broken connection.
        """
        return io.BufferedReader(ObjectStream(key, self._read_from(key)), _COPY_BYTES)

    def stat(self, key: str) -> ObjectStat | None:
        """See the port."""
        check_key(key)
        with failing(key, changes=False):
            try:
                found = self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)
            except ClientError as error:
                if is_absent(error):
                    return None
                raise
        return ObjectStat(
            max(0, int(member(found, "ContentLength", key))), _instant(member(found, "LastModified", key))
        )

    def materialize(self, key: str, path: Path) -> None:
        """See the port."""
        with self.open(key) as stream:
            pending = path.with_name(f"{PENDING}{secrets.token_hex(8)}")
            try:
                with pending.open("xb") as file:
                    while piece := stream.read(_COPY_BYTES):
                        file.write(piece)
                path.hardlink_to(pending)
            except FileExistsError as error:
                raise AlreadyExists(f"a file of the name {path.name} exists already") from error
            except OSError as error:
                raise Determinate(f"object {key}: {error.strerror}") from error
            finally:
                with suppress(OSError):
                    pending.unlink(missing_ok=True)

    def keys(self, prefix: str) -> Iterator[str]:
        """See the port."""
        check_prefix(prefix)
        for found in keys_in_order(self._prefix + prefix, self._pages):
            key = found.removeprefix(self._prefix)
            if _is_key(key):
                yield key

    def folders(self, prefix: str, *, names_max: int) -> Iterator[str]:
        """Names of the folders directly below a prefix. Raises Determinate.

        The prefix is empty or ends with a slash. Looks at `names_max` names and the rest of their page at most.
        """
        place, seen = self._prefix + prefix, 0
        for page in self._pages(place):
            yield from (key.removeprefix(place)[:-1] for key in page if key.endswith("/") and key != place)
            seen += max(len(page), PAGE_NAMES_MIN)
            if seen >= names_max:
                return

    def delete(self, key: str) -> None:
        """See the port."""
        check_key(key)
        with failing(key, changes=True):
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def write_ref(self, key: str, text: str) -> None:
        """See the port."""
        self._write_ref(key, text)

    def replace_ref(self, key: str, text: str, *, expected: str | None) -> bool:
        """See the port: by entity tag, known without a request for own writes.

        If this process has written the expected text, it knows the tag.
        """
        known = self._tags.pop(key)
        if known is not None and known[0] == expected and self._replaced(key, text, known[1]):
            return True
        found, tag = self._tagged_ref(key)
        # What was written, and of which the answer was lost, is there now.
        return found == text or (found == expected and self._replaced(key, text, tag))

    def _replaced(self, key: str, text: str, tag: str | None) -> bool:
        """Write if the object has this tag (None: there is none); whether it had."""
        try:
            written = self._write_ref(key, text, **({"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}))
        except ClientError as error:
            if is_taken(error) or is_absent(error):
                return False
            raise
        self._tags.put(key, (text, written))
        return True

    def _write_ref(self, key: str, text: str, **conditions: str) -> str:
        """The new entity tag. Raises ClientError for a condition that does not hold."""
        check_key(key)
        data = ref_bytes(key, text)
        refused: ClientError | None = None
        with failing(key, changes=True):
            try:
                answer = self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=data, **conditions)
                return str(answer.get("ETag", ""))
            except ClientError as error:
                if not (conditions and (is_taken(error) or is_absent(error))):
                    raise
                refused = error
        raise refused

    def _tagged_ref(self, key: str) -> tuple[str | None, str | None]:
        """Text and entity tag of a ref, None for one that is not there."""
        try:
            with ObjectStream(key, self._read_from(key)) as stream:
                if stream.size > REF_BYTES_MAX:
                    raise LimitExceeded(f"{key} is too large", limit="ref_bytes_max", maximum=REF_BYTES_MAX)
                return ref_text(key, stream.readall()), stream.version
        except NotFound:
            return None, None

    def exclusive(self, key: str) -> AbstractContextManager[None]:
        """See the port."""
        check_key(key)
        return self._exclusive(key)

    def read_ref(self, key: str) -> str | None:
        """See the port."""
        try:
            return ref_text(key, self.read_bytes(key, size_max=REF_BYTES_MAX))
        except NotFound:
            return None

    def link(self, key: str, *, lifetime_s: int) -> str | None:
        """See the port: signed here, without asking the server."""
        check_key(key)
        if self._links is None:
            return None
        asked = {"Bucket": self._bucket, "Key": self._prefix + key}
        url: str = self._links.generate_presigned_url("get_object", Params=asked, ExpiresIn=lifetime_s)
        return url

    def part_uploads(self) -> S3PartUploads | None:
        """Uploads that clients send to the bucket; None where they cannot reach it."""
        if self._links is None:
            return None
        return S3PartUploads(self._client, self._links, self._bucket, self._prefix)

    def _put(self, key: str, stream: ReadableBytes, sizes: PartSizes) -> int:
        first = read_piece(stream, sizes.first)
        if len(first) < sizes.first:
            self._put_whole(key, first)
            return len(first)
        return self._put_parts(key, first, stream, sizes)

    def _put_whole(self, key: str, data: bytes) -> None:
        check_key(key)
        with failing(key, changes=True):
            try:
                self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=data, IfNoneMatch="*")
            except ClientError as error:
                if not is_taken(error):
                    raise

    def _put_parts(self, key: str, first: bytes, stream: ReadableBytes, sizes: PartSizes) -> int:
        place = {"Bucket": self._bucket, "Key": self._prefix + key}
        with failing(key, changes=False):
            upload = {**place, "UploadId": self._client.create_multipart_upload(**place)["UploadId"]}
        done: list[dict[str, object]] = []
        try:
            piece, size = first, 0
            while piece:
                number = len(done) + 1
                with failing(key, changes=False):
                    answer = self._client.upload_part(**upload, PartNumber=number, Body=piece)
                done.append({"ETag": answer["ETag"], "PartNumber": number})
                size += len(piece)
                piece = read_piece(stream, sizes.at(number + 1))
            self._complete(key, upload, done)
        except BaseException:
            # Parts without an object cost money until somebody removes them; the bucket's own rules catch what this misses.
            with suppress(External), failing(key, changes=True):
                self._client.abort_multipart_upload(**upload)
            raise
        return size

    def _complete(self, key: str, upload: dict[str, str], parts: list[dict[str, object]]) -> None:
        with failing(key, changes=True):
            try:
                self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*")
            except ClientError as error:
                if not is_taken(error):
                    raise
                self._client.abort_multipart_upload(**upload)

    def _read_from(self, key: str) -> Callable[[int, str | None], Any]:
        check_key(key)

        def read_from(position: int, version: str | None) -> Any:
            """The answer from `position` on, of the version with that entity tag if given."""
            options = {"Range": f"bytes={position}-"} if position else {}
            if version is not None:
                options["IfMatch"] = version
            with failing(key, changes=False):
                try:
                    return self._client.get_object(Bucket=self._bucket, Key=self._prefix + key, **options)
                except ClientError as error:
                    if is_absent(error):
                        raise NotFound("object", key) from error
                    raise

        return read_from

    def _pages(self, prefix: str) -> Iterator[list[str]]:
        names_max = self._names_max
        after: dict[str, str] = {}
        seen = 0
        while True:
            with failing(f"{self._bucket}/{prefix}", changes=False):
                answer = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, Delimiter="/", **after)
            page, after = page_of(answer)
            yield page
            if not after:
                return
            seen += max(len(page), PAGE_NAMES_MIN)
            if names_max is not None and seen >= names_max:
                raise LimitExceeded(
                    f"{self._bucket}/{prefix} has too many names", limit="remote_names_max", maximum=names_max
                )


def _is_key(key: str) -> bool:
    try:
        check_key(key)
    except InvalidName:
        return False
    return True


def _instant(when: datetime) -> Instant:
    return Instant(int(when.timestamp()) * NANOS_PER_SECOND)
