"""Blob in an S3 bucket: one object per key, below a prefix.

Owns how a value is sent - whole, or in parts that become visible together - and how a deleted one comes back where the bucket
keeps versions. Invariant: a key shows the old value or the new one. Keys are listed page by page, in the order in which the
store lists them: S3 promises that of keys, some that look like it go folder by folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

from botocore.exceptions import ClientError

from odfabric_persist.errors import Determinate, LocationError, UsageError
from odfabric_persist.location.blob import BlobEntry, check_key
from odfabric_persist.location.s3_access import S3Place, code_of, located, s3_client

_ABSENT = frozenset({"NoSuchKey", "404"})


class S3Blob:
    """`Blob` at a place in a bucket. Several processes may share it."""

    def __init__(self, place: S3Place, *, client: Any = None) -> None:
        """`client` is one of `s3_client`, by default a new one.

        Raises UsageError (`invalid-place`).
        """
        self._place = place
        self._client = client or s3_client(place)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, key: str) -> bytes | None:
        """See the protocol."""
        with located(f"get {key}", writes=False):
            try:
                answer = self._client.get_object(**self._object(key))
            except ClientError as error:
                if code_of(error) == "NoSuchKey":
                    return None
                raise
            with closing(answer["Body"]) as body:
                return bytes(body.read())

    def set(self, key: str, value: bytes) -> None:
        """See the protocol."""
        if len(value) >= self._place.multipart_bytes:
            self._set_in_parts(key, value)
            return
        with located(f"set {key}", writes=True):
            self._client.put_object(**self._object(key), Body=value)

    def delete(self, key: str) -> int | None:
        """See the protocol. The size costs a request of its own."""
        size = self._size(key)
        if size is not None:
            with located(f"delete {key}", writes=True):
                self._client.delete_object(**self._object(key))
        return size

    def list(self, prefix: str) -> Iterator[BlobEntry]:
        """See the protocol, and above for the order."""
        pages = iter(
            self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._place.bucket,
                Prefix=self._place.prefix + prefix,
                PaginationConfig={"PageSize": self._place.page_keys},
            )
        )
        while True:
            with located(f"list {prefix}", writes=False):
                page = next(pages, None)
            if page is None:
                return
            for one in page.get("Contents", ()):
                key = one["Key"][len(self._place.prefix) :]
                if _is_key(key):
                    yield BlobEntry(key, one["Size"])

    def restore(self, key: str) -> None:
        """See the protocol: removes the delete markers of a versioned bucket."""
        while self._size(key) is None:
            marker = self._newest_marker(key)
            with located(f"restore {key}", writes=True):
                self._client.delete_object(**self._object(key), VersionId=marker)

    def _object(self, key: str) -> dict[str, Any]:
        return {"Bucket": self._place.bucket, "Key": self._place.prefix + check_key(key)}

    def _size(self, key: str) -> int | None:
        with located(f"size of {key}", writes=False):
            try:
                return int(self._client.head_object(**self._object(key))["ContentLength"])
            except ClientError as error:
                if code_of(error) in _ABSENT:
                    return None
                raise

    def _newest_marker(self, key: str) -> str:
        """The marker that hides the value.

        Raises Determinate if there is none, or nothing behind it.
        """
        name = self._place.prefix + key
        with located(f"restore {key}", writes=False):
            page = self._client.list_object_versions(Bucket=self._place.bucket, Prefix=name)
        markers = [one for one in page.get("DeleteMarkers", ()) if one["Key"] == name and one["IsLatest"]]
        if not markers or not any(one["Key"] == name for one in page.get("Versions", ())):
            raise Determinate(f"{key} cannot be restored: the bucket keeps no version of it")
        return str(markers[0]["VersionId"])

    def _set_in_parts(self, key: str, value: bytes) -> None:
        size = self._place.multipart_bytes
        with located(f"set {key}", writes=False):
            upload = self._client.create_multipart_upload(**self._object(key))["UploadId"]

        def send(number: int) -> dict[str, Any]:
            part = memoryview(value)[(number - 1) * size : number * size]
            answer = self._client.upload_part(
                **self._object(key), UploadId=upload, PartNumber=number, Body=part.tobytes()
            )
            return {"ETag": answer["ETag"], "PartNumber": number}

        try:
            # Parts show nowhere before they are put together.
            with located(f"set {key}", writes=False), ThreadPoolExecutor(self._place.parts_at_once) as pool:
                parts = list(pool.map(send, range(1, -(-len(value) // size) + 1)))
            with located(f"set {key}", writes=True):
                self._client.complete_multipart_upload(
                    **self._object(key), UploadId=upload, MultipartUpload={"Parts": parts}
                )
        except LocationError:
            with suppress(LocationError), located(f"abort {key}", writes=True):
                self._client.abort_multipart_upload(**self._object(key), UploadId=upload)
            raise


def _is_key(key: str) -> bool:
    """Whether it may be our key: consoles leave markers of folders, for example."""
    try:
        check_key(key)
    except UsageError:
        return False
    return True
