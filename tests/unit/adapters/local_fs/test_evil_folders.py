"""Folders that strangers write to: links, pipes, devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.remote_folder import FolderRemoteDatasets
from odfabric.adapters.local_fs.remote_store import FolderRemoteStores
from odfabric.adapters.stored_datasets.destination import StoredDestinations
from odfabric.errors import AccessDenied, CorruptedSource, Determinate, InvalidName, NotFound, OdfError
from odfabric.model.multihash import SHA3_256, Multihash
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.transfer.destinations import Destination

BLOCK = Multihash(SHA3_256, bytes(range(32)))


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder for pushes, with a place `ds` in it; `out` is beside it."""
    for folder in ("shared/ds/refs", "out"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path / "shared"


def stores(shared: Path) -> FolderRemoteStores:
    return FolderRemoteStores(reads=shared, writes=shared)


def store(shared: Path) -> ObjectStore:
    return stores(shared).open(f"file://{shared}/ds", writes=True)


def destination(shared: Path) -> Destination:
    made = StoredDestinations({"file": stores(shared)}, block_bytes_max=1000, at_once=1)
    return made.open(f"file://{shared}/ds")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_a_pipe_in_the_place_of_a_head_does_not_hold_up_a_push(shared: Path, make: Callable[[Path], None]) -> None:
    make(shared / "ds/refs/head")
    assert destination(shared).head() is None
    with pytest.raises(NotFound):
        store(shared).read_bytes("refs/head", size_max=100)


def test_a_link_to_a_device_is_no_head(shared: Path) -> None:
    (shared / "ds/refs/head").symlink_to("/dev/zero")
    with pytest.raises(AccessDenied):
        destination(shared).head()
    anywhere = FolderRemoteStores(reads=None, writes=None, anywhere=True)
    with pytest.raises(NotFound):
        anywhere.open(f"file://{shared}/ds", writes=True).read_bytes("refs/head", size_max=100)


ACTS: dict[str, Callable[[ObjectStore], object]] = {
    "write": lambda found: found.write_ref("refs/head", "x"),
    "replace": lambda found: found.replace_ref("refs/head", "x", expected=None),
    "read": lambda found: found.read_ref("refs/head"),
    "delete": lambda found: found.delete("refs/head"),
    "put": lambda found: found.put_bytes("refs/head", b"x"),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("where", ["ds", "ds/refs", "ds/refs/head"])
def test_nothing_is_written_or_read_through_a_link_that_leads_out(shared: Path, where: str, act: str) -> None:
    out = shared.parent / "out"
    for folder in ("refs", "ds/refs"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    secrets = [out / "head", out / "refs/head"]
    for secret in secrets:
        secret.write_text("secret")
    place = shared / where
    if where == "ds/refs/head":
        place.symlink_to(out / "head")
    else:
        (shared / "ds/refs").rmdir()
        if where == "ds":
            (shared / "ds").rmdir()
        place.symlink_to(out)
    with pytest.raises(AccessDenied) as refused:
        ACTS[act](store(shared))
    assert str(shared.parent) not in refused.value.message
    assert [secret.read_text() for secret in secrets] == ["secret", "secret"]


def test_links_in_a_circle_are_refused(shared: Path) -> None:
    (shared / "ds/refs/head").symlink_to("head")
    with pytest.raises((Determinate, AccessDenied)):
        destination(shared).head()
    (shared / "ds/again").symlink_to("..")
    assert stores(shared).datasets(f"file://{shared}", limit=100) == []


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "/etc/passwd",
        "data/../../x",
        "f1620" + "\uff10" * 64,
        "f1620" + "\u0430b" * 32,
        "f1620" + "ab" * 32 + "\0",
        "f1620" + "ab" * 32 + "/..",
    ],
)
def test_a_head_with_tricks_in_it_is_no_hash(shared: Path, name: str) -> None:
    (shared / "ds/refs/head").write_bytes(name.encode())
    for head in (destination(shared).head, FolderRemoteDatasets(shared, block_bytes_max=9).open("file://ds").head):
        with pytest.raises(CorruptedSource):
            head()


@pytest.mark.parametrize("folder", ["..", "/", "data/..", "refs", "", ".", "DATA", "d\u0430ta"])
def test_a_folder_with_tricks_in_it_holds_no_objects(shared: Path, folder: str) -> None:
    (shared / "mine").write_bytes(b"x")
    with pytest.raises((InvalidName, OdfError)):
        destination(shared).put(folder, BLOCK, shared / "mine")
    assert sorted(each.name for each in shared.iterdir()) == ["ds", "mine"]


def test_a_file_of_any_length_is_read_to_its_limit(shared: Path) -> None:
    for path in ("refs/head", f"blocks/{BLOCK}"):
        (shared / "ds" / path).parent.mkdir(exist_ok=True)
        with (shared / "ds" / path).open("wb") as file:
            file.truncate(1 << 40)
    remote = FolderRemoteDatasets(shared, block_bytes_max=1000).open("file://ds")
    for act in (remote.head, lambda: remote.block(BLOCK), destination(shared).head):
        with pytest.raises(OdfError):
            act()


def test_a_search_of_a_folder_looks_at_no_more_places_than_its_limit(shared: Path) -> None:
    for number in range(20):
        (shared / f"many-{number:02}/refs").mkdir(parents=True)
        (shared / f"many-{number:02}/refs/head").write_text("x")
    found = stores(shared).datasets(f"file://{shared}", limit=7)
    assert 0 < len(found) <= 7
    assert len(stores(shared).datasets(f"file://{shared}", limit=100)) == 20
