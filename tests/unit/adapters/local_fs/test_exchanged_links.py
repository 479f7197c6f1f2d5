"""Folders in which somebody puts a link between our look and our use."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.beneath import Beneath, LinkLeadsOut
from odfabric.adapters.local_fs.remote_folder import FolderRemoteDatasets
from odfabric.adapters.local_fs.remote_store import FolderRemoteStores
from odfabric.errors import AccessDenied, Determinate, NotFound
from odfabric.formats.identifiers.dataset_layout import parse_ref
from odfabric.ports.datasets.object_store import ObjectStore

SECRET = "f1620" + "ab" * 32
OURS = "f1620" + "cd" * 32


class Exchange:
    """Puts a link in the place of what was looked at `looks` times."""

    def __init__(self, place: Path, out: Path, *, looks: int) -> None:
        self.place, self.out, self.left = place, out, looks
        self.look = Path.resolve

    def __call__(self, path: Path, strict: bool = False) -> Path:
        found = self.look(path, strict)
        self.left -= 1
        if self.left == 0:
            self.place.rename(self.place.with_name("was"))
            self.place.symlink_to(self.out)
        return found


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder for pushes, with a dataset in it; `out` beside it looks alike."""
    for folder in ("shared/ds/refs", "out/refs", "out/ds/refs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "shared/ds/refs/head").write_text(OURS)
    for path in secrets(tmp_path / "out"):
        path.write_text(SECRET)
    return tmp_path / "shared"


def secrets(out: Path) -> list[Path]:
    return [out / "head", out / "refs/head", out / "ds/refs/head"]


def put_stream(store: ObjectStore) -> object:
    return store.put_stream("refs/new", io.BytesIO(b"x"))


ACTS: dict[str, Callable[[ObjectStore], object]] = {
    "write": lambda store: store.write_ref("refs/head", "x"),
    "replace": lambda store: store.replace_ref("refs/head", "x", expected=OURS),
    "delete": lambda store: store.delete("refs/head"),
    "put": lambda store: store.put_bytes("refs/new", b"x"),
    "stream": put_stream,
    "read": lambda store: store.read_ref("refs/head"),
    "stat": lambda store: store.stat("refs/head"),
    "list": lambda store: list(store.keys("refs/")),
}


@pytest.mark.parametrize("looks", range(1, 9))
@pytest.mark.parametrize("where", ["ds", "ds/refs", "ds/refs/head"])
@pytest.mark.parametrize("act", ACTS)
def test_a_link_that_is_put_there_in_between_leads_nowhere(
    shared: Path, monkeypatch: pytest.MonkeyPatch, act: str, where: str, looks: int
) -> None:
    out = shared.parent / "out"
    store = FolderRemoteStores(reads=shared, writes=shared).open(f"file://{shared}/ds", writes=True)
    target = {"ds": out, "ds/refs": out / "refs", "ds/refs/head": out / "head"}[where]
    exchange = Exchange(shared / where, target, looks=looks)
    monkeypatch.setattr(Path, "resolve", lambda path, strict=False: exchange(path, strict))
    try:
        found = ACTS[act](store)
    except (AccessDenied, Determinate, NotFound):
        found = None
    assert SECRET not in str(found)
    assert [path.read_text() for path in secrets(out)] == [SECRET] * 3
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == [
        "ds/refs/head",
        "head",
        "refs/head",
    ]


@pytest.mark.parametrize("where", ["ds", "ds/refs", "ds/refs/head"])
def test_a_pull_reads_nothing_through_it(shared: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    out = shared.parent / "out"
    remote = FolderRemoteDatasets(shared, block_bytes_max=1000).open("file://ds")
    target = {"ds": out, "ds/refs": out / "refs", "ds/refs/head": out / "head"}[where]
    exchange = Exchange(shared / where, target, looks=1)
    monkeypatch.setattr(Path, "resolve", lambda path, strict=False: exchange(path, strict))
    with pytest.raises((AccessDenied, Determinate)):
        remote.head()


def test_what_is_held_stays_the_same_folder(shared: Path) -> None:
    out, beneath = shared.parent / "out", Beneath(shared)
    with beneath.held(shared / "ds/refs/new", follow=False) as path:
        (shared / "ds/refs").rename(shared / "ds/was")
        (shared / "ds/refs").symlink_to(out / "refs")
        path.write_text("x")
    assert (shared / "ds/was/new").read_text() == "x"
    assert not (out / "refs/new").exists()
    with pytest.raises(LinkLeadsOut), beneath.held(shared / "ds/refs/new", follow=False):
        pass


def test_links_within_the_folder_and_a_root_that_is_one_are_followed(shared: Path) -> None:
    """The owner has chosen the root, and on a node links may lead anywhere below it."""
    (shared / "ds/refs").rename(shared / "elsewhere")
    (shared / "ds/refs").symlink_to("../elsewhere")
    chosen = shared.parent / "chosen"
    chosen.symlink_to(shared)
    store = FolderRemoteStores(reads=chosen, writes=chosen).open("file://ds", writes=True)
    assert store.read_ref("refs/head") == OURS
    store.write_ref("refs/head", SECRET)
    assert store.put_stream("data/new/one", io.BytesIO(b"x")) == 1
    assert [*store.keys("data/")] == ["data/new/one"]
    assert FolderRemoteDatasets(chosen, block_bytes_max=9).open("file://ds").head() == parse_ref(SECRET)
    assert (shared / "elsewhere/head").read_text() == SECRET
    assert store.replace_ref("refs/head", OURS, expected=SECRET)
    store.delete("refs/head")
    assert store.stat("refs/head") is None


def test_a_platform_without_the_walk_looks_beforehand(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odfabric.adapters.local_fs.beneath._CAN_WALK", False)
    store = FolderRemoteStores(reads=shared, writes=shared).open(f"file://{shared}/ds", writes=True)
    assert store.put_stream("data/new/one", io.BytesIO(b"x")) == 1
    assert store.read_ref("refs/head") == OURS
    (shared / "ds/data").rename(shared / "ds/was")
    (shared / "ds/data").symlink_to(shared.parent / "out")
    with pytest.raises(AccessDenied):
        store.put_bytes("data/two", b"x")
