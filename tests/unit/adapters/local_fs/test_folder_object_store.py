"""The folder of objects: deaths in the middle, links, a full disk."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.object_store import LOCKS, PENDING, FolderObjectStore
from odfabric.errors import AlreadyExists, Corrupt, Determinate, Indeterminate, InvalidData, InvalidName
from odfabric.model.instant import Instant
from tests.support.quick_processes import quick_processes

KEY = "fed01/data/f1620aa"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def objects(root: Path) -> FolderObjectStore:
    return FolderObjectStore(root)


def pending_files(root: Path) -> list[Path]:
    return [path for path in root.rglob(f"{PENDING}*") if path.is_file()]


class DyingStream:
    """Kills its process in the middle of a write, as a power cut would."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces

    def read(self, size: int = -1, /) -> bytes:
        if self.pieces == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.pieces -= 1
        return b"x" * 10_000


def put_and_die(root: Path, pieces: int) -> None:
    FolderObjectStore(root).put_stream(KEY, DyingStream(pieces))


@pytest.mark.parametrize("pieces", [0, 3])
def test_what_a_dead_writer_left_is_invisible_and_goes(root: Path, objects: FolderObjectStore, pieces: int) -> None:
    process = quick_processes().Process(target=put_and_die, args=(root, pieces))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    (leftover,) = pending_files(root)
    assert list(objects.keys("")) == []
    assert objects.stat(KEY) is None
    assert objects.remove_leftovers(older_than=Instant(leftover.stat().st_mtime_ns), entries_max=100) == 0
    objects.put_bytes(KEY, b"whole")
    assert objects.remove_leftovers(older_than=Instant(leftover.stat().st_mtime_ns + 1), entries_max=100) == 1
    assert pending_files(root) == []
    assert objects.read_bytes(KEY, size_max=10) == b"whole"


def test_clean_up_looks_at_a_bounded_number_of_names(root: Path, objects: FolderObjectStore) -> None:
    objects.put_bytes(KEY, b"data")
    for number in range(5):
        (root / "fed01/data" / f"{PENDING}{number}").write_bytes(b"")
    assert objects.remove_leftovers(older_than=Instant(2**62), entries_max=3) <= 3
    assert objects.remove_leftovers(older_than=Instant(2**62), entries_max=100) >= 2
    assert pending_files(root) == []
    assert list(objects.keys("")) == [KEY]


def test_no_write_leaves_a_pending_file(root: Path, objects: FolderObjectStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    objects.put_bytes(KEY, b"data")
    objects.put_bytes(KEY, b"data")
    objects.put_stream(KEY, io.BytesIO(b"data"))
    objects.put_file("a/b", tmp_path / "file")
    objects.write_ref("a/ref", "text")
    with objects.exclusive("a/ref"):
        assert len(list((root / LOCKS).iterdir())) == 1
    assert pending_files(root) == []
    assert list((root / LOCKS).iterdir()) == []


def test_private_files_are_linked_others_copied(root: Path, tmp_path: Path) -> None:
    objects = FolderObjectStore(root, private_folders=[tmp_path / "exchange"])
    for folder in ("exchange", "public"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_bytes(b"data")
        objects.put_file(f"put/{folder}", tmp_path / folder / "file")
        objects.materialize(f"put/{folder}", tmp_path / folder / "out")
    exchange, public = tmp_path / "exchange", tmp_path / "public"
    assert (root / "put/exchange").samefile(exchange / "file")
    assert (root / "put/exchange").samefile(exchange / "out")
    assert not (root / "put/public").samefile(public / "file")
    assert not (root / "put/public").samefile(public / "out")
    objects.put_file("put/around", exchange / ".." / "public" / "file")
    assert not (root / "put/around").samefile(public / "file")
    shutil.rmtree(exchange)
    assert objects.read_bytes("put/exchange", size_max=10) == b"data"


@pytest.mark.parametrize("private", [True, False])
def test_only_regular_files_are_taken(root: Path, tmp_path: Path, private: bool) -> None:
    objects = FolderObjectStore(root, private_folders=[tmp_path] if private else [])
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder"):
        with pytest.raises(InvalidData):
            objects.put_file(KEY, tmp_path / name)
    assert list(objects.keys("")) == []


def test_a_key_below_or_above_another_is_refused(objects: FolderObjectStore) -> None:
    objects.put_bytes("a/b", b"data")
    with pytest.raises(InvalidName):
        objects.put_bytes("a", b"data")
    with pytest.raises(Determinate):
        objects.put_bytes("a/b/c", b"data")
    assert list(objects.keys("")) == ["a/b"]


def test_strangers_in_the_folder_are_not_listed(root: Path, objects: FolderObjectStore) -> None:
    objects.put_bytes(KEY, b"data")
    (root / "fed01/.git").mkdir()
    (root / "fed01/.git/config").write_bytes(b"")
    (root / "fed01/README of mine.md").write_bytes(b"")
    (root / os.fsdecode(b"\xff")).write_bytes(b"")
    (root / "loop").symlink_to(root)
    (root / "fed01/pipe").symlink_to("nothing")
    assert list(objects.keys("fed01")) == list(objects.keys("")) == [KEY]


def test_a_ref_that_is_no_text_is_damage(root: Path, objects: FolderObjectStore) -> None:
    objects.put_bytes("a/ref", b"\xff\xfe")
    with pytest.raises(Corrupt):
        objects.read_ref("a/ref")


def test_a_folder_that_vanishes_is_made_anew(root: Path, objects: FolderObjectStore) -> None:
    objects.put_bytes(KEY, b"one")
    shutil.rmtree(root)
    objects.put_bytes(KEY, b"two")
    assert objects.read_bytes(KEY, size_max=10) == b"two"


@pytest.mark.parametrize("write", ["put_bytes", "put_stream", "put_file", "write_ref", "delete"])
def test_a_folder_that_cannot_be_synced_leaves_the_outcome_open(
    objects: FolderObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    objects.put_bytes("fed01/data/other", b"")
    (tmp_path / "file").write_bytes(b"data")
    arguments = {"put_bytes": b"data", "put_stream": io.BytesIO(b"data"), "put_file": tmp_path / "file"}
    if write == "delete":
        objects.put_bytes(KEY, b"data")
    real = os.fsync

    def fail_on_folders(opened: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{opened}"):
            raise OSError(errno.EIO, "Input/output error")
        real(opened)

    monkeypatch.setattr(os, "fsync", fail_on_folders)
    what = () if write == "delete" else (arguments.get(write, "text"),)
    with pytest.raises(Indeterminate) as failure:
        getattr(objects, write)(KEY, *what)
    assert str(tmp_path) not in str(failure.value)
    monkeypatch.undo()
    assert (objects.stat(KEY) is None) == (write == "delete")


@pytest.mark.parametrize("write", ["put_bytes", "put_stream", "put_file", "write_ref"])
def test_a_file_that_cannot_be_synced_was_not_written(
    root: Path, objects: FolderObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    objects.put_bytes("fed01/data/other", b"")
    (tmp_path / "file").write_bytes(b"data")
    arguments = {"put_bytes": b"data", "put_stream": io.BytesIO(b"data"), "put_file": tmp_path / "file"}

    def fail(opened: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Determinate, match="No space left"):
        getattr(objects, write)(KEY, arguments.get(write, "text"))
    assert objects.stat(KEY) is None
    assert pending_files(root) == []


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.errors import Determinate
from tests.support.quick_processes import quick_processes
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
objects = FolderObjectStore(Path(sys.argv[1]))
objects.put_bytes("a/small", b"x" * 4096)
for write in (lambda: objects.put_bytes("a/large", b"x" * 4097), lambda: objects.put_file("a/large", Path(sys.argv[2]))):
    try:
        write()
    except Determinate as error:
        print(error)
"""


def test_a_full_disk_is_determinate_and_leaves_nothing(root: Path, objects: FolderObjectStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 5000)
    command = [sys.executable, "-c", FULL_DISK, str(root), str(tmp_path / "file")]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert told.splitlines() == ["object a/large: File too large"] * 2
    assert list(objects.keys("")) == ["a/small"]
    assert pending_files(root) == []


def test_a_reader_sees_whole_objects_only(objects: FolderObjectStore) -> None:
    seen: set[int] = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            stat = objects.stat(KEY)
            seen.add(-1 if stat is None else stat.size)

    looker = threading.Thread(target=look)
    looker.start()
    for _ in range(30):
        objects.put_stream(KEY, io.BytesIO(b"x" * 3_000_000))
        objects.delete(KEY)
    stop.set()
    looker.join(10)
    assert seen <= {-1, 3_000_000}


def test_a_link_in_the_place_of_the_destination_is_not_followed(objects: FolderObjectStore, tmp_path: Path) -> None:
    objects.put_bytes(KEY, b"data")
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AlreadyExists):
        objects.materialize(KEY, tmp_path / "out")
    assert not (tmp_path / "elsewhere").exists()
