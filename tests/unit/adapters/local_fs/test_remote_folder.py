"""Folders as remotes: where their URLs may lead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.remote_folder import FolderRemoteDatasets
from odfabric.errors import AccessDenied, Determinate, InvalidName, InvalidRequest, NotFound
from odfabric.model.multihash import SHA3_256, Multihash

BLOCK = Multihash(SHA3_256, bytes(range(32)))


@pytest.fixture
def poll(tmp_path: Path) -> Path:
    """An allowed folder with a dataset `in/ds` in it, and a dataset `out` beside it."""
    for place in ("poll/in/ds", "out"):
        root = tmp_path / place
        for folder in ("refs", "blocks", "data"):
            (root / folder).mkdir(parents=True)
        (root / "refs/head").write_text(str(BLOCK))
        (root / f"data/{BLOCK}").write_bytes(b"rows")
    return tmp_path / "poll"


def opened(folder: Path | None, url: str, *, anywhere: bool = False) -> Multihash:
    return FolderRemoteDatasets(folder, anywhere=anywhere, block_bytes_max=1000).open(url).head()


def test_urls_below_the_folder_are_read(poll: Path) -> None:
    for url in (
        f"file://{poll}/in/ds",
        f"file://{poll}/in/ds/",
        f"file://localhost{poll}/in/ds",
        f"file:{poll}/in/ds",
        f"FILE://{poll}/./in/../in/ds",
        f"file://{poll}/%69n/ds",
        "file://in/ds",
        "file:in/ds",
        "file://./in/ds",
    ):
        assert opened(poll, url) == BLOCK, url


def test_urls_that_leave_the_folder_are_refused(poll: Path) -> None:
    (poll / "link").symlink_to(poll.parent / "out")
    (poll / "in/up").symlink_to("../..")
    for url in (
        f"file://{poll.parent}/out",
        f"file://{poll}/../out",
        "file://../out",
        "file://%2e%2e/out",
        "file:///",
        f"file://{poll}/link",
        "file://link",
        "file://in/up/out",
        f"file://{poll}-beside",
    ):
        with pytest.raises(AccessDenied):
            opened(poll, url)
        with pytest.raises(AccessDenied):
            opened(None, url)


def test_without_a_folder_anywhere_starts_at_the_current_one(poll: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(poll)
    for url in ("file://in/ds", "file:../out", f"file://{poll}/in/ds"):
        assert opened(None, url, anywhere=True) == BLOCK


def test_anywhere_means_anywhere(poll: Path) -> None:
    (poll / "link").symlink_to(poll.parent / "out")
    for url in (f"file://{poll.parent}/out", "file://../out", "file://link", "file://in/ds"):
        assert opened(poll, url, anywhere=True) == BLOCK


def test_links_inside_a_dataset_may_not_lead_out(poll: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(str(BLOCK))
    head = poll / "in/ds/refs/head"
    head.unlink()
    head.symlink_to(tmp_path / "secret")
    with pytest.raises(AccessDenied) as refused:
        opened(poll, "file://in/ds")
    assert str(tmp_path) not in str(refused.value)
    assert opened(poll, "file://in/ds", anywhere=True) == BLOCK
    head.unlink()
    (poll / "in/head").write_text(str(BLOCK))
    head.symlink_to("../../head")
    assert opened(poll, "file://in/ds") == BLOCK


def test_what_is_not_a_regular_file_is_not_there(poll: Path) -> None:
    head = poll / "in/ds/refs/head"
    head.unlink()
    os.mkfifo(head)
    with pytest.raises(NotFound):
        opened(poll, "file://in/ds")
    head.unlink()
    head.mkdir()
    with pytest.raises(NotFound):
        opened(poll, "file://in/ds")
    head.rmdir()
    head.symlink_to("head")
    with pytest.raises((NotFound, Determinate)):
        opened(poll, "file://in/ds")
    (poll / "in/file").write_text("x")
    with pytest.raises(NotFound):
        opened(poll, "file://in/file")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file:",
        "file://",
        "in/ds",
        "/in/ds",
        "http://in/ds",
        "file://in/ds?x",
        "file://in/ds#x",
        "file://%00",
        "file:" + "x" * 5000,
    ],
)
def test_other_texts_are_refused(poll: Path, url: str) -> None:
    with pytest.raises(InvalidRequest):
        opened(poll, url)


def test_only_objects_are_read(poll: Path, tmp_path: Path) -> None:
    remote = FolderRemoteDatasets(poll, block_bytes_max=1000).open("file://in/ds", token="ignored")
    for folder in ("refs", "info", "..", "/"):
        with pytest.raises(InvalidName):
            remote.download(folder, BLOCK, size_max=10, into=tmp_path / "copy")
    assert remote.download("data", BLOCK, size_max=4, into=tmp_path / "copy") == 4
