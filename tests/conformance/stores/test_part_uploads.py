"""Uploads in parts: a bucket and the stand-in keep one contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from odfabric.adapters.local_fs.folder_locks import FolderLocks
from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.memory.datasets.part_uploads import StoredPartUploads
from odfabric.adapters.memory.node.clock import SeededEntropy, SettableClock
from odfabric.adapters.s3.client import S3Access
from odfabric.adapters.s3.object_store import S3ObjectStore
from odfabric.errors import InvalidRequest, NotFound
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.datasets.part_uploads import PART_BYTES_MIN, PartUploads
from odfabric.testing.conformance.datasets.part_uploads import KEY, LAST, PartUploadsContract, Send
from odfabric.testing.conformance.examples import NOW
from tests.support.servers.s3 import S3Server
from tests.support.waiting import wait_until


class StandIn:
    @pytest.fixture
    def parts(self, objects: ObjectStore) -> StoredPartUploads:
        return StoredPartUploads(objects, clock=SettableClock(NOW), entropy=SeededEntropy(1))

    @pytest.fixture
    def send(self, parts: StoredPartUploads) -> Send:
        def sent(url: str, data: bytes) -> str | None:
            try:
                return parts.put(url, data)
            except (InvalidRequest, NotFound):
                return None

        return sent


class TestInMemory(StandIn, PartUploadsContract):
    @pytest.fixture
    def objects(self) -> ObjectStore:
        return MemoryObjectStore(SettableClock(NOW))


class TestInFolder(StandIn, PartUploadsContract):
    @pytest.fixture
    def objects(self, tmp_path: Path) -> ObjectStore:
        return FolderObjectStore(tmp_path / "objects")


class TestInBucket(PartUploadsContract):
    @pytest.fixture
    def objects(self, s3: S3Server, bucket: str, tmp_path: Path) -> S3ObjectStore:
        access = S3Access(endpoint_url=s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)
        locks = FolderLocks(tmp_path / "locks").exclusive
        return S3ObjectStore(access, bucket, prefix="of/node/", exclusive=locks, public=access)

    @pytest.fixture
    def parts(self, objects: S3ObjectStore) -> PartUploads:
        found = objects.part_uploads()
        assert found is not None
        return found

    @pytest.fixture
    def http(self) -> Iterator[httpx.Client]:
        with httpx.Client(trust_env=False) as client:
            yield client

    @pytest.fixture
    def send(self, http: httpx.Client) -> Send:
        def sent(url: str, data: bytes) -> str | None:
            answer = http.put(url, content=data)
            return answer.headers["etag"].strip('"') if answer.is_success else None

        return sent

    def test_a_url_leaks_nothing_but_its_part(self, parts: PartUploads, http: httpx.Client, send: Send) -> None:
        upload, other = parts.begin(KEY), parts.begin("staging/other")
        link = parts.link(KEY, upload, 1, size=len(LAST), lifetime_s=60)
        for changed in (
            link.replace("partNumber=1", "partNumber=2"),
            link.replace(upload, other),
            link.replace(KEY, "staging/other"),
            link.partition("?")[0],
        ):
            assert changed != link
            assert http.put(changed, content=LAST).status_code in (400, 403)
        assert http.get(link).status_code == 403
        assert http.delete(link).status_code == 403
        assert send(link, LAST)

    def test_a_url_ends(self, parts: PartUploads, http: httpx.Client) -> None:
        link = parts.link(KEY, parts.begin(KEY), 1, size=len(LAST), lifetime_s=1)
        wait_until(lambda: http.put(link, content=LAST).status_code == 403, what="the end of the link")

    def test_many_parts_are_listed(self, parts: PartUploads, send: Send) -> None:
        upload = parts.begin(KEY)
        for number in range(1, 4):
            assert send(parts.link(KEY, upload, number, size=PART_BYTES_MIN, lifetime_s=60), b"x" * PART_BYTES_MIN)
        assert [part.number for part in parts.stored(KEY, upload)] == [1, 2, 3]

    def test_a_server_without_a_public_address_has_no_links(self, s3: S3Server, bucket: str, tmp_path: Path) -> None:
        access = S3Access(endpoint_url=s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)
        store = S3ObjectStore(access, bucket, exclusive=FolderLocks(tmp_path / "locks").exclusive)
        assert store.part_uploads() is None
