"""What a bucket does beyond the contract: parts, links, and named failures."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from odfabric.adapters.local_fs.folder_locks import FolderLocks
from odfabric.adapters.s3.client import S3Access, failing
from odfabric.adapters.s3.object_store import S3ObjectStore
from odfabric.adapters.s3.object_stream import ATTEMPTS_MAX, ObjectStream
from odfabric.adapters.s3.parts import FIRST_BYTES, MIB, PARTS_MAX, PartSizes
from odfabric.errors import Determinate, Indeterminate, InvalidRequest, NotFound
from tests.support.servers.s3 import S3Server
from tests.support.waiting import wait_until

KEY = "dataset/data/object"
SMALL_PARTS = PartSizes(first=5 * MIB)


def access_to(s3: S3Server, **changes: str) -> S3Access:
    given = {"endpoint_url": s3.endpoint, "access_key": s3.access_key, "secret_key": s3.secret_key, **changes}
    return S3Access(**given, attempts_max=1, connect_s_max=2.0, read_s_max=20.0)


@pytest.fixture
def open_bucket(s3: S3Server, tmp_path: Path) -> Callable[..., S3ObjectStore]:
    def opened(bucket: str, **changes: str) -> S3ObjectStore:
        locks = FolderLocks(tmp_path / "locks")
        access = access_to(s3, **changes)
        return S3ObjectStore(access, bucket, exclusive=locks.exclusive, part_sizes=SMALL_PARTS, public=access_to(s3))

    return opened


@pytest.fixture
def objects(open_bucket: Callable[..., S3ObjectStore], bucket: str) -> S3ObjectStore:
    return open_bucket(bucket)


def pattern(size: int) -> bytes:
    """Bytes of which no two parts are the same."""
    return b"".join(number.to_bytes(8, "big") for number in range(size // 8))


def test_a_large_stream_goes_in_parts_and_comes_back(objects: S3ObjectStore, s3: S3Server, bucket: str) -> None:
    data = pattern(12 * MIB)
    assert objects.put_stream(KEY, io.BytesIO(data)) == len(data)
    assert "-3" in s3.client().head_object(Bucket=bucket, Key=KEY)["ETag"], "it was not written in three parts"
    assert objects.read_bytes(KEY, size_max=len(data)) == data
    with objects.open(KEY) as stream:
        stream.seek(7 * MIB)
        assert stream.read(16) == data[7 * MIB : 7 * MIB + 16]
        stream.seek(-8, io.SEEK_END)
        assert stream.read() == data[-8:]


def test_the_first_large_object_counts_too(objects: S3ObjectStore) -> None:
    first, second = pattern(11 * MIB), b"x" * (11 * MIB)
    objects.put_stream(KEY, io.BytesIO(first))
    assert objects.put_stream(KEY, io.BytesIO(second)) == len(second)
    assert objects.read_bytes(KEY, size_max=len(first)) == first


class Breaking(io.BytesIO):
    """A large stream that breaks after its first part."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > 6 * MIB:
            raise ConnectionResetError
        return super().read(MIB)


def test_a_large_stream_that_breaks_leaves_no_parts(objects: S3ObjectStore, s3: S3Server, bucket: str) -> None:
    with pytest.raises(ConnectionResetError):
        objects.put_stream(KEY, Breaking(pattern(12 * MIB)))
    assert objects.stat(KEY) is None
    assert s3.client().list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


def test_parts_are_enough_for_the_largest_object() -> None:
    size = 64 * 1024 * 1024 * MIB
    assert PartSizes.of(1).first == FIRST_BYTES
    assert PartSizes.of(size).first * PARTS_MAX >= size
    growing = PartSizes()
    assert sum(growing.at(number) for number in range(1, PARTS_MAX + 1)) > size / 10


def test_a_link_reads_one_object_for_a_while(objects: S3ObjectStore) -> None:
    objects.put_bytes(KEY, b"data")
    objects.put_bytes("dataset/data/other", b"secret")
    url = objects.link(KEY, lifetime_s=60)
    assert url is not None
    with httpx.Client(trust_env=False) as http:
        assert http.get(url).content == b"data"
        assert http.get(url, headers={"range": "bytes=1-2"}).content == b"at"
        assert http.get(url.replace("data/object", "data/other")).status_code == 403
        assert http.get(url.partition("?")[0]).status_code == 403
        assert http.put(url, content=b"mine").status_code == 403
        brief = objects.link(KEY, lifetime_s=1)
        assert brief is not None
        wait_until(lambda: http.get(brief).status_code == 403, what="the end of the link")


@pytest.mark.parametrize(
    ("changes", "hint"),
    [({"secret_key": "wrong"}, "ODF_S3_SECRET_KEY"), ({"access_key": "nobody"}, "ODF_S3_ACCESS_KEY")],
)
def test_wrong_keys_are_told_with_what_to_do(
    open_bucket: Callable[..., S3ObjectStore], bucket: str, changes: dict[str, str], hint: str
) -> None:
    with pytest.raises(Determinate) as refused:
        open_bucket(bucket, **changes).check()
    assert hint in str(refused.value)


def test_a_missing_bucket_is_told_and_is_not_a_missing_object(open_bucket: Callable[..., S3ObjectStore]) -> None:
    objects = open_bucket("no-such-bucket")
    with pytest.raises(Determinate, match="ODF_OBJECTS_URL"):
        objects.check()
    with pytest.raises(Determinate, match="NoSuchBucket"):
        objects.open(KEY)


def test_a_missing_bucket_is_made_if_that_is_wished(open_bucket: Callable[..., S3ObjectStore], bucket: str) -> None:
    objects = open_bucket(f"{bucket}-new")
    for _ in range(2):
        objects.check(create=True)
    objects.put_bytes(KEY, b"data")
    objects.check()


def test_a_server_that_is_away_is_told(open_bucket: Callable[..., S3ObjectStore], bucket: str) -> None:
    objects = open_bucket(bucket, endpoint_url="http://127.0.0.1:1")
    for call in (lambda: objects.stat(KEY), lambda: objects.put_bytes(KEY, b""), lambda: list(objects.keys(""))):
        with pytest.raises(Determinate):
            call()


def answer(status: int) -> ClientError:
    return ClientError({"Error": {"Code": "Whatever"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject")


@pytest.mark.parametrize(
    ("failure", "of_read", "of_write"),
    [
        (answer(409), Determinate, Determinate),
        (answer(403), Determinate, Determinate),
        (answer(500), Determinate, Indeterminate),
        (answer(503), Determinate, Indeterminate),
        (EndpointConnectionError(endpoint_url="x"), Determinate, Determinate),
        (ReadTimeoutError(endpoint_url="x"), Determinate, Indeterminate),
    ],
)
def test_only_what_may_have_happened_is_indeterminate(
    failure: Exception, of_read: type[Exception], of_write: type[Exception]
) -> None:
    for changes, expected in ((False, of_read), (True, of_write)):
        with pytest.raises(expected), failing(KEY, changes=changes):
            raise failure


class Connections:
    """Answers that break after some bytes; a version that changes is not given."""

    def __init__(self, data: bytes, *, each: int) -> None:
        self.data, self.each = data, each
        self.asked: list[tuple[int, str | None]] = []

    def __call__(self, position: int, version: str | None) -> dict[str, object]:
        self.asked.append((position, version))
        body = io.BytesIO(self.data[position : position + self.each])
        return {"ETag": '"v1"', "ContentLength": len(self.data), "Body": body}


def test_reading_goes_on_where_a_connection_broke() -> None:
    connections = Connections(b"0123456789", each=4)
    with io.BufferedReader(ObjectStream("key", connections), 3) as stream:
        assert stream.read() == b"0123456789"
    assert connections.asked == [(0, None), (4, '"v1"'), (8, '"v1"')]


def test_reading_ends_when_no_byte_comes_any_more() -> None:
    connections = Connections(b"0123456789", each=0)
    with ObjectStream("key", connections) as stream, pytest.raises(Determinate):
        stream.read()
    assert len(connections.asked) == ATTEMPTS_MAX


def test_an_object_that_is_deleted_while_it_is_read_is_told(objects: S3ObjectStore) -> None:
    objects.put_bytes(KEY, pattern(2 * MIB))
    with objects.open(KEY) as stream:
        objects.delete(KEY)
        stream.seek(MIB)
        with pytest.raises(NotFound):
            stream.read()


@dataclass(frozen=True, kw_only=True)
class Careless(S3Access):
    """A server that ignores some write conditions, as look-alikes of S3 do."""

    ignored: tuple[str, ...] = ()

    def client(self) -> Any:
        client = super().client()

        def forget(params: dict[str, Any], **_: object) -> None:
            for condition in self.ignored:
                params.pop(condition, None)

        client.meta.events.register("provide-client-params.s3.PutObject", forget)
        return client


@pytest.mark.parametrize("ignored", [(), ("IfNoneMatch",), ("IfMatch",), ("IfNoneMatch", "IfMatch")])
def test_a_store_that_ignores_conditions_is_refused(
    s3: S3Server, bucket: str, tmp_path: Path, ignored: tuple[str, ...]
) -> None:
    access = Careless(**asdict(access_to(s3)), ignored=ignored)
    store = S3ObjectStore(access, bucket, prefix="node/", exclusive=FolderLocks(tmp_path / "locks").exclusive)
    if ignored:
        with pytest.raises(InvalidRequest, match="ignores the conditions"):
            store.check()
    else:
        store.check()
    assert list(store.keys("")) == [], "the probe is left behind"
