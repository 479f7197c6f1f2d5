"""The key file: made once, replaced whole, private, watched by its users."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.key_file import KeyFileSealing
from odfabric.adapters.system.clock import SystemEntropy
from odfabric.errors import AccessDenied, Corrupt, Determinate
from odfabric.formats.secrets.key_file import encode_keys
from odfabric.formats.secrets.sealed_form import mark_of
from odfabric.testing.conformance.together import outcomes_of_processes, outcomes_of_threads

CONTEXT = b"subscription:a1"
NAME = "dataset-keys.key"


def sealing_of(folder: Path, *, wait_s_max: float = 30.0) -> KeyFileSealing:
    return KeyFileSealing(folder / NAME, entropy=SystemEntropy(), wait_s_max=wait_s_max)


def nothing() -> None:
    pass


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_key_file_is_for_its_owner_and_stays(tmp_path: Path) -> None:
    sealing_of(tmp_path).mark()
    content = (tmp_path / NAME).read_bytes()
    assert os.stat(tmp_path / NAME).st_mode & 0o777 == 0o600
    assert len(content) == 32
    assert sealing_of(tmp_path).mark() == mark_of(content)
    assert (tmp_path / NAME).read_bytes() == content
    assert names(tmp_path) == [NAME]


def test_a_rotation_leaves_a_file_as_all_releases_read_it(tmp_path: Path) -> None:
    sealing = sealing_of(tmp_path)
    sealing.mark()
    before = (tmp_path / NAME).read_bytes()
    sealing.begin()
    both = (tmp_path / NAME).read_bytes()
    assert os.stat(tmp_path / NAME).st_mode & 0o777 == 0o600
    sealing.drop_old(nothing)
    after = (tmp_path / NAME).read_bytes()
    assert os.stat(tmp_path / NAME).st_mode & 0o777 == 0o600
    assert (len(before), len(after)) == (32, 32)
    assert both == encode_keys((after, before))
    assert names(tmp_path) == [NAME]


def test_the_file_stays_that_of_the_node_whoever_rotates(tmp_path: Path) -> None:
    """An administrator may do that as another user, whom only root can be."""
    sealing_of(tmp_path).mark()
    if os.geteuid() == 0:
        os.chown(tmp_path / NAME, 4321, -1)
    before = os.stat(tmp_path / NAME).st_uid
    sealing = sealing_of(tmp_path)
    sealing.begin()
    assert os.stat(tmp_path / NAME).st_uid == before
    sealing.drop_old(nothing)
    assert os.stat(tmp_path / NAME).st_uid == before


def test_a_file_of_an_older_release_is_used(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(bytes(range(32)))
    (tmp_path / NAME).chmod(0o600)
    assert sealing_of(tmp_path).mark() == mark_of(bytes(range(32)))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    running = sealing_of(tmp_path)
    sealed = running.seal(b"secret", context=CONTEXT)
    (tmp_path / NAME).chmod(mode)
    for sealing in (running, sealing_of(tmp_path)):
        with pytest.raises(AccessDenied, match=r"chmod 600 dataset-keys\.key"):
            sealing.seal(b"secret", context=CONTEXT)
        with pytest.raises(AccessDenied):
            sealing.open(sealed, context=CONTEXT)
        with pytest.raises(AccessDenied), sealing.kept():
            pass
        with pytest.raises(AccessDenied):
            sealing.begin()


@pytest.mark.parametrize("size", [0, 31, 33, 104, 1000, 100_000])
def test_a_damaged_key_file_is_alarming_and_left_alone(tmp_path: Path, size: int) -> None:
    (tmp_path / NAME).write_bytes(bytes(size))
    (tmp_path / NAME).chmod(0o600)
    with pytest.raises(Corrupt, match="restore it from the backup"):
        sealing_of(tmp_path).mark()
    with pytest.raises(Corrupt):
        sealing_of(tmp_path).begin()
    assert (tmp_path / NAME).stat().st_size == size


def test_what_a_dead_process_left_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / f".{NAME}.pending").write_bytes(b"half")
    (tmp_path / f".{NAME}.lock").write_bytes(b"")
    sealing_of(tmp_path).mark()
    assert names(tmp_path) == [NAME]
    (tmp_path / f".{NAME}.pending").write_bytes(b"half")
    assert sealing_of(tmp_path).begin()
    assert names(tmp_path) == [NAME]


def test_opening_makes_no_key(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    sealed = sealing_of(other).seal(b"secret", context=CONTEXT)
    with pytest.raises(Corrupt, match="does not have"):
        sealing_of(tmp_path).open(sealed, context=CONTEXT)
    assert names(tmp_path) == ["other"]


def test_a_folder_that_is_not_there_is_an_outside_failure(tmp_path: Path) -> None:
    for use in (lambda sealing: sealing.mark(), lambda sealing: sealing.begin()):
        with pytest.raises(Determinate, match="the key file cannot be made"):
            use(sealing_of(tmp_path / "nothing"))


def test_a_file_that_cannot_be_replaced_says_what_is_missing(tmp_path: Path) -> None:
    """As a file that is mounted alone, which no other can take the name of."""
    sealing = sealing_of(tmp_path)
    sealed = sealing.seal(b"secret", context=CONTEXT)
    (tmp_path / f".{NAME}.pending").mkdir()
    with pytest.raises(
        Determinate, match=r"cannot be replaced: .*its folder must be one that this process may write to"
    ):
        sealing.begin()
    assert sealing_of(tmp_path).open(sealed, context=CONTEXT) == b"secret"
    (tmp_path / f".{NAME}.pending").rmdir()
    assert sealing.begin()


def test_a_link_to_the_file_stays_one(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / NAME).symlink_to(tmp_path / "kept" / NAME)
    sealing_of(tmp_path / "kept").mark()
    sealing = sealing_of(tmp_path)
    before = sealing.mark()
    sealing.begin()
    sealing.drop_old(nothing)
    assert (tmp_path / NAME).is_symlink()
    assert names(tmp_path / "kept") == [NAME]
    assert sealing_of(tmp_path / "kept").mark() == sealing.mark() != before


def test_a_file_that_somebody_else_replaced_is_noticed(tmp_path: Path) -> None:
    """A replaced file is noticed, by a restore or within one tick of the clock."""
    running = sealing_of(tmp_path)
    running.mark()
    seen = os.stat(tmp_path / NAME)
    pending = tmp_path / "restored"
    pending.write_bytes(bytes(range(32)))
    pending.chmod(0o600)
    os.utime(pending, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    pending.rename(tmp_path / NAME)
    assert running.mark() == mark_of(bytes(range(32)))


def test_a_key_that_is_not_known_is_looked_for_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file system shows no difference between two states of the file."""
    monkeypatch.setattr("odfabric.adapters.local_fs.key_file._seen", lambda found: (0, 0, 0, 0, 0))
    running = sealing_of(tmp_path)
    running.mark()
    other = sealing_of(tmp_path)
    other.begin()
    sealed = sealing_of(tmp_path).seal(b"secret", context=CONTEXT)
    assert running.open(sealed, context=CONTEXT) == b"secret"


def test_racing_threads_make_one_key(tmp_path: Path) -> None:
    marks = outcomes_of_threads(lambda _: sealing_of(tmp_path).mark().hex())
    assert {str(mark) for mark in marks} == {mark_of((tmp_path / NAME).read_bytes()).hex()}


class OpenSealing:
    """Opens the key file of a folder in another process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self) -> KeyFileSealing:
        return sealing_of(self.folder)


def mark(sealing: KeyFileSealing, number: int) -> str:
    return sealing.mark().hex()


def rotate(sealing: KeyFileSealing, number: int) -> str:
    return f"{sealing.begin()}"


def test_racing_processes_make_one_key_and_rotate_once(tmp_path: Path) -> None:
    assert set(outcomes_of_processes(OpenSealing(tmp_path), mark)) == {mark_of((tmp_path / NAME).read_bytes()).hex()}
    made = outcomes_of_processes(OpenSealing(tmp_path), rotate)
    assert made == ["False"] * (len(made) - 1) + ["True"]


def test_a_new_key_is_not_used_before_it_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sealing, hasty = sealing_of(tmp_path), sealing_of(tmp_path, wait_s_max=0.0)
    sealing.mark()
    tried: list[str] = []

    def sync_folder(folder: Path) -> None:
        with pytest.raises(Determinate, match="in use"), hasty.kept():
            pass
        tried.append(folder.name)

    monkeypatch.setattr("odfabric.adapters.local_fs.key_file.sync_folder", sync_folder)
    assert sealing.begin()
    assert sealing.drop_old(nothing) == 1
    assert tried == [tmp_path.name] * 2
    with hasty.kept():
        pass


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    sealing, hasty = sealing_of(tmp_path), sealing_of(tmp_path, wait_s_max=0.0)
    sealing.mark()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with sealing.kept():
            for refused in (hasty.begin, lambda: hasty.drop_old(nothing)):
                with pytest.raises(Determinate):
                    refused()
        sealing.begin()
        sealing.drop_old(nothing)
    assert len(os.listdir("/proc/self/fd")) == before


def test_threads_share_what_one_of_them_reads(tmp_path: Path) -> None:
    sealing = sealing_of(tmp_path)
    stop = threading.Event()

    def rotate_all_the_time() -> int:
        count = 0
        while not stop.is_set():
            sealing_of(tmp_path).begin()
            sealing_of(tmp_path).drop_old(nothing)
            count += 1
        return count

    def use(number: int) -> int:
        if number == 0:
            return rotate_all_the_time()
        try:
            for _ in range(50):
                with sealing.kept():
                    sealed = sealing.seal(b"secret", context=CONTEXT)
                assert sealing.open(sealed, context=CONTEXT) == b"secret"
        finally:
            if number == 1:
                stop.set()
        return 0

    outcomes = outcomes_of_threads(use, count=5)
    assert [one for one in outcomes if isinstance(one, Exception)] == []
