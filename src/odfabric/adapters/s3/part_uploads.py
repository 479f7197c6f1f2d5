"""Uploads in parts that clients send to a bucket by presigned URLs.

Owns what such a URL allows: PUT of one part of one upload, of one size, for a while. Invariant: completing, listing and aborting need the
node's keys, so nobody else makes an object of the parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from botocore.exceptions import ClientError

from odfabric.adapters.s3.client import code_of, failing, is_taken, status_of
from odfabric.errors import Changed, NotFound
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.ports.datasets.object_store import check_key, check_prefix
from odfabric.ports.datasets.part_uploads import OpenUpload, StoredPart

_WRONG_PARTS = frozenset({"InvalidPart", "InvalidPartOrder", "EntityTooSmall"})
_GONE = frozenset({"NoSuchUpload", "NoSuchKey"})


class S3PartUploads:
    """PartUploads in `bucket` below `prefix`.

    `links` signs the URLs: it names the bucket as clients reach it.
    """

    def __init__(self, client: Any, links: Any, bucket: str, prefix: str) -> None:
        self._client = client
        self._links = links
        self._bucket = bucket
        self._prefix = prefix

    def begin(self, key: str) -> str:
        """See the port."""
        check_key(key)
        with failing(key, changes=True):
            return str(self._client.create_multipart_upload(**self._place(key))["UploadId"])

    def link(self, key: str, upload: str, number: int, *, size: int, lifetime_s: int) -> str:
        """See the port: signed here, without asking the server."""
        check_key(key)
        asked = {**self._upload(key, upload), "PartNumber": number, "ContentLength": size}
        url: str = self._links.generate_presigned_url("upload_part", Params=asked, ExpiresIn=lifetime_s)
        return url

    def stored(self, key: str, upload: str) -> Sequence[StoredPart]:
        """See the port."""
        check_key(key)
        found: list[StoredPart] = []
        after: dict[str, int] = {}
        while True:
            with failing(key, changes=False):
                try:
                    answer = self._client.list_parts(**self._upload(key, upload), **after)
                except ClientError as error:
                    if _is_gone(error):
                        raise NotFound("upload", upload) from error
                    raise
            page = [
                StoredPart(int(each["PartNumber"]), int(each["Size"]), _tag(each["ETag"]))
                for each in answer.get("Parts", ())
            ]
            found += page
            if not page or not answer.get("IsTruncated"):
                return sorted(set(found), key=lambda part: (part.number, part.tag))
            after = {"PartNumberMarker": page[-1].number}

    def complete(self, key: str, upload: str, parts: Sequence[StoredPart]) -> None:
        """See the port."""
        # Not every server compares tags, or refuses an upload that it has completed before.
        if not set(parts) <= set(self.stored(key, upload)):
            raise Changed("the parts are not those that the store has")
        named = [{"PartNumber": part.number, "ETag": f'"{part.tag}"'} for part in parts]
        with failing(key, changes=True):
            try:
                self._client.complete_multipart_upload(
                    **self._upload(key, upload), MultipartUpload={"Parts": named}, IfNoneMatch="*"
                )
            except ClientError as error:
                if is_taken(error):
                    self._abort(key, upload)
                elif _is_gone(error):
                    raise NotFound("upload", upload) from error
                elif code_of(error) in _WRONG_PARTS:
                    raise Changed("the parts are not those that the store has") from error
                else:
                    raise

    def abort(self, key: str, upload: str) -> None:
        """See the port."""
        check_key(key)
        with failing(key, changes=True):
            self._abort(key, upload)

    def unfinished(self, prefix: str) -> Iterator[OpenUpload]:
        """See the port."""
        check_prefix(prefix)
        after: dict[str, str] = {}
        while True:
            with failing(f"{self._bucket}/{prefix}", changes=False):
                answer = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=self._prefix + prefix, **after)
            for each in answer.get("Uploads", ()):
                begun_at = Instant(int(each["Initiated"].timestamp()) * NANOS_PER_SECOND)
                yield OpenUpload(str(each["Key"]).removeprefix(self._prefix), str(each["UploadId"]), begun_at)
            if not answer.get("IsTruncated") or not answer.get("NextKeyMarker"):
                return
            after = {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer.get("NextUploadIdMarker", "")}

    def _abort(self, key: str, upload: str) -> None:
        try:
            self._client.abort_multipart_upload(**self._upload(key, upload))
        except ClientError as error:
            if not _is_gone(error):
                raise

    def _place(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def _upload(self, key: str, upload: str) -> dict[str, str]:
        return {**self._place(key), "UploadId": upload}


def _is_gone(error: ClientError) -> bool:
    return code_of(error) in _GONE or (status_of(error) == 404 and code_of(error) != "NoSuchBucket")


def _tag(text: str) -> str:
    return text.strip('"')
