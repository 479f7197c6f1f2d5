"""Datasets in remote buckets, read and written.

What remotes promise holds for S3 too, and the guard of requests stands before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odfabric.adapters.http.egress import Egress
from odfabric.adapters.local_fs.remote_store import FolderRemoteStores
from odfabric.adapters.s3.remote_stores import BucketKeys, S3RemoteStores
from odfabric.adapters.stored_datasets.destination import StoredDestinations
from odfabric.adapters.stored_datasets.remote import StoredRemoteDatasets
from odfabric.errors import AccessDenied, InvalidRequest, UnsupportedProtocol
from odfabric.formats.identifiers.dataset_layout import object_path
from odfabric.model.commit import EncodedBlock
from odfabric.model.multihash import Multihash
from odfabric.ports.transfer.destinations import Destinations
from odfabric.testing.conformance.examples import GrowingChain, entry_of, hash_of
from odfabric.testing.conformance.sources.egress import BLOCK_BYTES_MAX, RemoteDatasetsContract
from tests.support.servers.s3 import S3Server


def guarded(s3: S3Server, *, allow: bool = True, keys: dict[str, BucketKeys] | None = None) -> Iterator[S3RemoteStores]:
    place = s3.endpoint.partition("://")[2]
    with Egress(allow=[place] if allow else []) as egress:
        stores = S3RemoteStores(egress.connections((443,)), keys=keys or {}, attempts_max=1)
        yield stores
        stores.close()


@pytest.fixture
def url(s3: S3Server, bucket: str) -> str:
    return f"s3+{s3.endpoint}/{bucket}/shelf/"


@pytest.fixture
def stores(s3: S3Server, bucket: str) -> Iterator[S3RemoteStores]:
    own = BucketKeys(access_key=s3.access_key, secret_key=s3.secret_key, region="us-east-1")
    yield from guarded(s3, keys={f"s3+{s3.endpoint}/{bucket}": own})


class BucketSite:
    """A dataset in a bucket that can be filled byte by byte."""

    def __init__(self, client: Any, bucket: str, url: str) -> None:
        self._client, self._bucket, self._url = client, bucket, f"{url}local/ds"

    def url(self) -> str:
        return self._url

    def put(self, path: str, data: bytes) -> None:
        self._client.put_object(Bucket=self._bucket, Key=f"shelf/local/ds/{path}", Body=data)


class TestBucketRemoteDatasets(RemoteDatasetsContract):
    @pytest.fixture
    def site(self, s3: S3Server, bucket: str, url: str) -> BucketSite:
        return BucketSite(s3.client(), bucket, url)

    @pytest.fixture
    def remotes(self, stores: S3RemoteStores) -> StoredRemoteDatasets:
        return StoredRemoteDatasets(stores, block_bytes_max=BLOCK_BYTES_MAX)


class DestinationsContract:
    """Every `Destinations` over a store.

    The subclass gives them and the URL of a dataset that is not there.
    """

    @pytest.fixture
    def destinations(self) -> Destinations:
        raise NotImplementedError

    @pytest.fixture
    def place(self) -> str:
        raise NotImplementedError

    @staticmethod
    def blocks(count: int, *, label: str = "") -> list[EncodedBlock]:
        return GrowingChain(None, entry_of("flights")).next_blocks(count, label=label)  # type: ignore[arg-type]

    def test_what_is_published_is_there(self, destinations: Destinations, place: str, tmp_path: Path) -> None:
        there, blocks, data = destinations.open(place), self.blocks(3), tmp_path / "slice"
        data.write_bytes(b"rows")
        name = hash_of("slice")
        assert (there.head(), dict(there.sizes("data", [name]))) == (None, {})
        there.put("data", name, data)
        assert dict(there.sizes("data", [name, hash_of("other")])) == {name: 4}
        assert there.publish(blocks, head=blocks[-1].hash, expected=None, alias="a/flights", force=False)
        again = destinations.open(place)
        assert again.head() == blocks[-1].hash
        assert [again.block(each.hash) for each in blocks] == [each.data for each in blocks]

    def test_an_object_is_written_once_unless_it_is_damaged(
        self, destinations: Destinations, place: str, tmp_path: Path
    ) -> None:
        there, name = destinations.open(place), hash_of("slice")
        for number, text in enumerate((b"first", b"second!")):
            (tmp_path / str(number)).write_bytes(text)
            there.put("data", name, tmp_path / str(number))
        assert dict(there.sizes("data", [name])) == {name: 5}
        there.put("data", name, tmp_path / "1", replaces=True)
        assert dict(there.sizes("data", [name])) == {name: 7}

    def test_many_are_looked_up_at_once(self, destinations: Destinations, place: str, tmp_path: Path) -> None:
        there, names = destinations.open(place), [hash_of(str(number)) for number in range(50)]
        (tmp_path / "one").write_bytes(b"one")
        for name in names[:3]:
            there.put("checkpoints", name, tmp_path / "one")
        assert dict(there.sizes("checkpoints", names)) == dict.fromkeys(names[:3], 3)

    def test_whoever_is_late_changes_nothing(self, destinations: Destinations, place: str) -> None:
        first, second = self.blocks(2), self.blocks(2, label="other")
        there = destinations.open(place)
        assert there.publish(first, head=first[-1].hash, expected=None, alias="a/flights", force=False)
        assert not there.publish(second, head=second[-1].hash, expected=None, alias="a/flights", force=False)
        assert not there.publish(second, head=second[-1].hash, expected=hash_of("x"), alias="a/x", force=False)
        assert there.head() == first[-1].hash
        # The same again is success: its answer may have been lost.
        assert there.publish(first, head=first[-1].hash, expected=None, alias="a/flights", force=False)
        assert there.publish(second, head=second[-1].hash, expected=first[-1].hash, alias="a/flights", force=True)
        assert there.head() == second[-1].hash


class TestBucketDestinations(DestinationsContract):
    @pytest.fixture
    def destinations(self, stores: S3RemoteStores) -> Destinations:
        return StoredDestinations({"s3+http": stores}, block_bytes_max=1 << 20, at_once=4)

    @pytest.fixture
    def place(self, url: str) -> str:
        return f"{url}local/flights/"

    def test_the_layout_is_that_of_a_dataset(
        self, destinations: Destinations, place: str, s3: S3Server, bucket: str
    ) -> None:
        (block,) = self.blocks(1)
        there = destinations.open(place)
        assert there.publish([block], head=block.hash, expected=None, alias="a/flights", force=False)
        root = "shelf/local/flights/"
        listed = {each["Key"] for each in s3.client().list_objects_v2(Bucket=bucket)["Contents"]}
        assert listed == {root + path for path in (object_path("blocks", block.hash), "refs/head", "info/alias")}

    def test_a_repository_is_listed(self, destinations: Destinations, stores: S3RemoteStores, url: str) -> None:
        (block,) = self.blocks(1)
        for path in ("local/one", "local/two", "bare"):
            destinations.open(url + path).publish([block], head=block.hash, expected=None, alias=path, force=False)
        assert list(stores.datasets(url, limit=100)) == ["bare", "local/one", "local/two"]


class TestFolderDestinations(DestinationsContract):
    @pytest.fixture
    def stores(self, tmp_path: Path) -> FolderRemoteStores:  # type: ignore[override]
        return FolderRemoteStores(reads=tmp_path / "shelf", writes=tmp_path / "shelf")

    @pytest.fixture
    def destinations(self, stores: FolderRemoteStores) -> Destinations:  # type: ignore[override]
        return StoredDestinations({"file": stores}, block_bytes_max=1 << 20, at_once=4)

    @pytest.fixture
    def place(self) -> str:
        return "file:local/flights"

    def test_nothing_but_the_dataset_is_left(self, destinations: Destinations, place: str, tmp_path: Path) -> None:
        (block,) = self.blocks(1)
        there = destinations.open(place)
        assert there.publish([block], head=block.hash, expected=None, alias="a/flights", force=False)
        root = tmp_path / "shelf/local/flights"
        found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        assert found == {object_path("blocks", block.hash), "refs/head", "info/alias"}
        assert (root / "refs/head").read_text() == str(block.hash)

    def test_files_are_copied_and_never_linked(self, destinations: Destinations, place: str, tmp_path: Path) -> None:
        (tmp_path / "own").write_bytes(b"rows")
        name: Multihash = hash_of("slice")
        destinations.open(place).put("data", name, tmp_path / "own")
        assert (tmp_path / "own").stat().st_nlink == 1

    @pytest.mark.parametrize("url", ["file:../out", "file:///etc", "file:local/../../out"])
    def test_no_url_leads_out_of_the_folder(self, destinations: Destinations, url: str) -> None:
        with pytest.raises(AccessDenied, match="outside"):
            destinations.open(url)

    def test_a_link_does_not_lead_out_either(self, destinations: Destinations, tmp_path: Path) -> None:
        (tmp_path / "shelf").mkdir()
        (tmp_path / "shelf/out").symlink_to(tmp_path)
        with pytest.raises(AccessDenied, match="outside"):
            destinations.open("file:out/there")

    def test_without_a_folder_nothing_is_written(self, tmp_path: Path) -> None:
        closed = FolderRemoteStores(reads=tmp_path, writes=None)
        with pytest.raises(AccessDenied) as refused:
            closed.open("file:x", writes=True)
        assert "push_folder" in str(refused.value)
        closed.open("file:x", writes=False)

    def test_a_repository_is_listed(self, destinations: Destinations, stores: FolderRemoteStores) -> None:  # type: ignore[override]
        (block,) = self.blocks(1)
        for path in ("local/one", "local/two", "bare", ".hidden/one"):
            destinations.open(f"file:{path}").publish([block], head=block.hash, expected=None, alias=path, force=False)
        assert list(stores.datasets("file:.", limit=100)) == ["bare", "local/one", "local/two"]
        assert list(stores.datasets("file:.", limit=2)) == ["bare"]


def test_an_inner_address_is_refused(s3: S3Server, url: str) -> None:
    for stores in guarded(s3, allow=False):
        with pytest.raises(AccessDenied, match="not a public address"):
            StoredRemoteDatasets(stores, block_bytes_max=1000).open(url).head()


def test_keys_go_to_their_bucket_alone(s3: S3Server, bucket: str, url: str) -> None:
    own = BucketKeys(access_key=s3.access_key, secret_key=s3.secret_key, region="us-east-1")
    for stores in guarded(s3, keys={f"s3+{s3.endpoint}/another": own, f"s3://{bucket}": own}):
        with pytest.raises(AccessDenied) as refused:
            StoredRemoteDatasets(stores, block_bytes_max=1000).open(url).head()
        assert s3.secret_key not in str(refused.value)
        assert "ODF_REMOTE_S3_KEYS" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3://UPPER/x",
        "s3://user:secret@bucket/x",
        "s3://bucket/x?versionId=1",
        "s3://bucket/x#y",
        "s3://bucket/../y",
        "s3+http://host",
        "s3+http://host/",
        "s3+http://host:port/bucket",
        "s3+https://key:secret@host/bucket",
    ],
)
def test_urls_that_name_no_bucket_are_refused(stores: S3RemoteStores, url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        stores.open(url, writes=False)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://node.example/x", "odf+https://node.example/x", "ipfs://abc", "gopher://x"])
def test_other_places_are_no_stores(tmp_path: Path, url: str) -> None:
    folders = FolderRemoteStores(reads=tmp_path, writes=tmp_path)
    with pytest.raises(UnsupportedProtocol) as refused:
        StoredDestinations({"file": folders}, block_bytes_max=1000, at_once=1).open(url)
    assert refused.value.hint
